"""The data model shared by all parts of the lab.

The behaviour file (lab/internet.toml) is expanded once into an `Internet`. Links, servers, DNS, routing
tables and `lab truth` are configured from it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

HostKind = Literal["vantage", "centre", "dns", "resolver", "web", "files", "mirror", "edge"]

# Packets that the link drops on purpose, per edge address. `odd_flows`: the first, third, fifth ... flow
# (five-tuple) from each client. `first_answer`: the first datagram of every flow from edge to client.
# `over_1350`: datagrams to the edge with an IP packet longer than LARGEST_IP bytes.
DropRule = Literal["odd_flows", "first_answer", "over_1350"]
LARGEST_IP = 1350

# Changes by the link to the ECN field of datagrams to and from an edge address: `bleached` clears it,
# `congested` changes ECT(0) and ECT(1) to CE.
PathEcn = Literal["bleached", "congested"]


@dataclass(frozen=True)
class Host:
    """One network namespace, joined to the link emulator by `eth0`.

    `v4` and `v6` are the main addresses, which are the default source addresses. `more` holds the other
    addresses (an edge has hundreds); all are assigned to eth0 as /32 and /128. `tcp`: values of
    net.ipv4.tcp_NAME that differ from other hosts.
    """

    name: str
    kind: HostKind
    v4: str
    v6: str
    more: tuple[str, ...] = ()
    tcp: tuple[tuple[str, int], ...] = ()


# `small` and `large` are correct. Each of the others has one flaw that a client may notice: self-signed, for
# other names, expired.
CertificateName = Literal["small", "large", "self_signed", "other_name", "expired"]


@dataclass(frozen=True)
class HttpAnswer:
    """The answer to every HTTP/3 request, sent `delay_us` (`None` = 0) after it."""

    status: int
    headers: tuple[tuple[str, str], ...] = ()
    delay_us: int | None = None
    place: str | None = None  # location of the edge, if a field contains it


@dataclass(frozen=True)
class Endpoint:
    """The server at UDP port 443 of an address for a name (the truth about a probe)."""

    domain: str
    ip: str
    host: str
    stack: str  # a folder of lab/stacks, or `none`
    mode: str  # a mode in the stack's manifest
    delay_us: int | None  # declared delay between instant ACK and ServerHello, or before a waiting answer
    certificate: CertificateName = "small"
    outcome: str = ""  # the outcome of docs/definitions.md that a probe must get
    asn: int | None = None
    cdn: str | None = None
    alpn: str = "h3"  # the protocol that the server accepts; empty: no protocol
    http: HttpAnswer | None = None  # `None`: requests are never answered


@dataclass(frozen=True)
class DnsRecord:
    """A resource record of the lab's DNS server. `name` is absolute, without final dot."""

    name: str
    type: Literal["A", "AAAA", "CNAME", "HTTPS", "NS", "TXT"]
    ttl: int
    data: str


@dataclass(frozen=True)
class Announcement:
    """One announcement in the lab's routing table; the origin is the last AS of the path."""

    prefix: str
    as_path: tuple[int, ...]


@dataclass(frozen=True)
class Drop:
    """Datagrams of the edge address `ip` that the link emulator drops."""

    ip: str
    rule: DropRule


@dataclass(frozen=True)
class EcnPath:
    """The link emulator's change to the ECN field of datagrams to and from the edge address `ip`."""

    ip: str
    rule: PathEcn


@dataclass(frozen=True)
class Bottleneck:
    """A rate in bits per second and a drop-tail queue for packets from `from_host` to `to_host`.

    If one of the two is `None`, all packets that leave or reach the other one share it. The queue is limited
    by packets, by bytes of IP, or by both. The packet in transmission counts.
    """

    from_host: str | None
    to_host: str | None
    rate_bps: int
    queue_packets: int | None = None
    queue_bytes: int | None = None


@dataclass(frozen=True)
class Service:
    """A program that the lab keeps running on one host.

    It counts as up when the log (standard output and error together) matches the regular expression `ready`.
    After `ready_timeout_s` without a match, the lab reports the service and shows the last log lines. A
    `realtime` service runs before ordinary processes (SCHED_FIFO) if that is allowed; otherwise a busy
    machine would change its declared times.
    """

    name: str
    host: str
    argv: tuple[str, ...]
    ready: str
    env: dict[str, str] = field(default_factory=dict)
    ready_timeout_s: float = 120.0
    cwd: Path | None = None
    realtime: bool = False
