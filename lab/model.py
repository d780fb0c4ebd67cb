"""The lab's data model, shared by all of its parts.

The behaviour file (lab/internet.toml) is expanded once into an `Internet`; links, servers, DNS and
routing tables are each configured from it, and so is `lab truth`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

HostKind = Literal["vantage", "centre", "dns", "resolver", "web", "files", "mirror", "edge"]

# Packets that the link drops on purpose, per edge address. `odd_flows`: the first, third, fifth ... flow
# (five-tuple) from each client; `first_answer`: the first datagram of every flow from edge to client;
# `over_1350`: datagrams to the edge whose IP packet is longer than LARGEST_IP bytes.
DropRule = Literal["odd_flows", "first_answer", "over_1350"]
LARGEST_IP = 1350

# What the link does to the ECN field of datagrams to and from an edge address: `bleached` clears it,
# `congested` turns ECT(0) and ECT(1) into CE.
PathEcn = Literal["bleached", "congested"]


@dataclass(frozen=True)
class Host:
    """One network namespace, joined to the link emulator by `eth0`.

    `v4` and `v6` are the main addresses, which packets leave from by default; `more` holds the other
    addresses (an edge has hundreds), all assigned to eth0 as /32 and /128. `tcp`: settings net.ipv4.tcp_NAME
    that differ from the other hosts'.
    """

    name: str
    kind: HostKind
    v4: str
    v6: str
    more: tuple[str, ...] = ()
    tcp: tuple[tuple[str, int], ...] = ()


# `small` and `large` are right; the others have one flaw each, which a client may notice:
# signed by itself, for other names, no longer valid.
CertificateName = Literal["small", "large", "self_signed", "other_name", "expired"]


@dataclass(frozen=True)
class Answer:
    """The answer to every HTTP/3 request, sent `delay_us` (None = 0) after it."""

    status: int
    headers: tuple[tuple[str, str], ...] = ()
    delay_us: int | None = None
    place: str | None = None  # the edge's, if a field names it


@dataclass(frozen=True)
class Endpoint:
    """The server at UDP port 443 of one address for one name (the truth about a probe)."""

    domain: str
    ip: str
    host: str
    stack: str  # a folder of lab/stacks, or `none`
    mode: str  # one of the stack's manifest
    delay_us: int | None  # declared delay between instant ACK and ServerHello, or before a waiting answer
    certificate: CertificateName = "small"
    outcome: str = ""  # the outcome of docs/definitions.md that a probe must get
    asn: int | None = None
    cdn: str | None = None
    alpn: str = "h3"  # the protocol that the server accepts; empty: it chooses none
    http: Answer | None = None  # None: requests are never answered


@dataclass(frozen=True)
class DnsRecord:
    """One resource record as the lab's DNS server serves it. `name` is absolute, without final dot."""

    name: str
    type: Literal["A", "AAAA", "CNAME", "HTTPS", "NS", "TXT"]
    ttl: int
    data: str


@dataclass(frozen=True)
class Route:
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
    """What the link emulator does to the ECN field of datagrams to and from the edge address `ip`."""

    ip: str
    rule: PathEcn


@dataclass(frozen=True)
class Bottleneck:
    """A rate in bits per second and a drop-tail queue, which packets `from_host` `to_host` pass.

    With one end None, all packets that leave or reach the other end share it. The queue is limited by
    packets, by bytes of IP, or by both; the packet in transmission counts.
    """

    from_host: str | None
    to_host: str | None
    rate_bps: int
    queue_packets: int | None = None
    queue_bytes: int | None = None


@dataclass(frozen=True)
class Service:
    """A program that the lab keeps running on one host.

    It counts as up when its log (standard output and error together) holds a match of `ready` (a regular
    expression); the lab waits at most `ready_timeout_s` for that, then reports which service did not start
    and shows the end of its log. A `realtime` service runs before ordinary processes where that is allowed
    (SCHED_FIFO): otherwise a busy machine would change its declared times.
    """

    name: str
    host: str
    argv: tuple[str, ...]
    ready: str
    env: dict[str, str] = field(default_factory=dict)
    ready_timeout_s: float = 120.0
    cwd: Path | None = None
    realtime: bool = False
