"""The behaviour file (lab/internet.toml): the entries, typed and checked once.

Unknown keys, impossible counts and names declared twice are errors. The file itself documents the entries;
lab/declared/internet.py expands them into an `Internet`.
"""

from __future__ import annotations

import tomllib
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from firstflight.errors import UsageError
from lab import stacks
from lab.declared.model import CertificateName, DropRule, HostKind, PathEcn

TcpSetting = Literal["ecn", "sack", "timestamps", "window_scaling"]
DnsStatus = Literal["NOERROR", "NXDOMAIN", "SERVFAIL"]


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class HostEntry(_Entry):
    """A host that is not an edge; `tcp`: its values of net.ipv4.tcp_NAME that differ from other hosts."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_]{0,14}$")
    kind: HostKind
    v4: IPv4Address
    v6: IPv6Address
    tcp: dict[TcpSetting, int] = Field(default_factory=dict)


class DelayDistribution(_Entry):
    """A lognormal with a Pareto of exponent `tail_alpha` as its top `tail_share`; milliseconds."""

    median_ms: float = Field(gt=0, le=1000)
    sigma: float = Field(ge=0, le=3)
    tail_share: float = Field(default=0.0, ge=0, lt=0.5)
    tail_alpha: float = Field(default=1.5, gt=0)
    max_ms: float = Field(gt=0, le=2000)


class RouteEntry(_Entry):
    """One announcement; the last AS of the path is the origin."""

    prefix: str
    path: tuple[int, ...] = Field(min_length=1)

    @field_validator("prefix")
    @classmethod
    def _is_network(cls, value: str) -> str:
        return str(ip_network(value))


class Varying(_Entry):
    """The number of names that send instant ACKs in each epoch."""

    iack: tuple[int, ...] = Field(min_length=1)


class AnswerEntry(_Entry):
    """An answer to HTTP/3 requests of a share of all names; `headers` follow the headers of the CDN."""

    status: int = Field(ge=200, le=599)
    headers: tuple[tuple[str, str], ...] = ()
    delay_ms: float | None = Field(default=None, ge=0, le=2000)
    share: float = Field(default=0.0, ge=0, le=1)


class FieldsEntry(_Entry):
    """The header fields in a host's answers, and the locations of the host.

    In values, {domain} is the requested name, {place} is one of `places` (always the same for an address),
    {hex} is 16 random hex digits, and {age} is a random number of seconds.
    """

    headers: tuple[tuple[str, str], ...]
    places: tuple[str, ...] = ("",)


class CdnEntry(_Entry):
    """A CDN: the number of names per behaviour."""

    name: str
    host: str
    asns: tuple[int, ...]
    https: bool = False
    block4: IPv4Network
    block6: IPv6Network
    names: int = Field(gt=0, le=2000)
    iack: int = Field(ge=0)
    delay: DelayDistribution | None = None
    wait: DelayDistribution
    stack: str = "quiche"
    wait_stacks: tuple[str, ...] = ()
    shared: int = Field(default=0, ge=0)
    aaaa: int = Field(default=0, ge=0)
    cname: int = Field(default=0, ge=0)
    large: float = Field(default=0.0, ge=0, le=1)
    varying: Varying | None = None
    routes: tuple[RouteEntry, ...]
    http: FieldsEntry

    @model_validator(mode="after")
    def _adds_up(self) -> CdnEntry:
        stacks.check(self.stack, "wait", *(["iack"] if self.iack else []))
        for stack in self.wait_stacks:
            stacks.check(stack, "wait")
        if self.iack > self.names:
            raise ValueError(f"{self.name}: more instant ACK names ({self.iack}) than names ({self.names})")
        if self.iack and self.delay is None:
            raise ValueError(f"{self.name}: instant ACK names need `delay`")
        if self.iack and self.iack % 2 == 0:
            # An even number has no middle name, so the median could differ from the declared one.
            raise ValueError(f"{self.name}: `iack` must be odd")
        if self.varying and (self.varying.iack[0] != self.iack or max(self.varying.iack) > self.iack):
            raise ValueError(f"{self.name}: `varying.iack` must start with `iack` and never exceed it")
        if self.varying and any((self.iack - count) % 2 for count in self.varying.iack):
            raise ValueError(
                f"{self.name}: the numbers in `varying.iack` must differ by even numbers: names vary in pairs"
            )
        if 2 * self.shared > self.names or self.aaaa > self.names or self.cname > self.names:
            raise ValueError(f"{self.name}: `shared`, `aaaa` or `cname` exceed the number of names")
        return self


class OddEntry(_Entry):
    """The host of the special names."""

    host: str
    block4: IPv4Network
    block6: IPv6Network
    routes: tuple[RouteEntry, ...]
    http: FieldsEntry


class SpecialEntry(_Entry):
    """One special name: its addresses and server, or the failure that DNS reports for it."""

    domain: str
    a: tuple[IPv4Address, ...] = ()
    aaaa: tuple[IPv6Address, ...] = ()
    stack: str = "quiche"
    mode: str = ""
    delay_ms: float | None = Field(default=None, ge=0, le=2000)
    certificate: CertificateName = "small"
    alpn: str = "h3"
    answer: AnswerEntry | None = None  # `None`: a plain 200
    answers: bool = True  # whether the server answers requests
    outcome: str = ""
    dns_status: DnsStatus = "NOERROR"
    drop: DropRule | None = None
    path_ecn: PathEcn | None = None

    @model_validator(mode="after")
    def _whole(self) -> SpecialEntry:
        if self.mode and self.stack != stacks.NO_SERVER:
            stacks.check(self.stack, self.mode)
            stacks.check_alpn(self.stack, self.alpn)
        if (self.a or self.aaaa) and not (self.mode and self.outcome and self.dns_status == "NOERROR"):
            raise ValueError(
                f"{self.domain}: a name with an address needs `mode`, `outcome` and dns_status NOERROR"
            )
        return self


class OverrideEntry(_Entry):
    """A change to one name, applied after everything else is drawn."""

    domain: str
    mode: Literal["iack", "wait"]
    delay_ms: float = Field(gt=0, le=2000)


class LineEntry(_Entry):
    """One direction of a bottleneck: the rate in bits per second, and the drop-tail queue's size."""

    rate_bps: int = Field(ge=8_000, le=1_000_000_000_000)
    queue_packets: int | None = Field(default=None, ge=1, le=1_000_000)
    queue_bytes: int | None = Field(default=None, ge=1500, le=1_000_000_000)

    @model_validator(mode="after")
    def _limited(self) -> LineEntry:
        if self.queue_packets is None and self.queue_bytes is None:
            raise ValueError("a rate needs `queue_packets` or `queue_bytes`, or both")
        return self


class BottleneckEntry(_Entry):
    """A host's access link, for all paths, or with `peer` for a single path; by direction."""

    host: str
    peer: str | None = None
    to_host: LineEntry | None = None
    from_host: LineEntry | None = None

    @model_validator(mode="after")
    def _limits_something(self) -> BottleneckEntry:
        if self.to_host is None and self.from_host is None:
            raise ValueError(f"{self.host}: a bottleneck needs `to_host` or `from_host`, or both")
        if self.host == self.peer:
            raise ValueError(f"{self.host}: `peer` is the host itself")
        return self


class Behaviour(_Entry):
    """The whole behaviour file."""

    seed: int
    epochs: int = Field(gt=0, le=20)
    ttl: int = Field(gt=0)
    blocklist: tuple[str, ...]
    optout: tuple[str, ...]
    host: tuple[HostEntry, ...]
    default_rtt_ms: float = Field(gt=0, le=250)
    rtt_ms: dict[str, dict[str, float]]
    cdn: tuple[CdnEntry, ...]
    odd: OddEntry
    answer: tuple[AnswerEntry, ...] = ()
    special: tuple[SpecialEntry, ...]
    override: tuple[OverrideEntry, ...] = ()
    bottleneck: tuple[BottleneckEntry, ...] = ()

    @model_validator(mode="after")
    def _consistent(self) -> Behaviour:
        hosts = [h.name for h in self.host] + [c.host for c in self.cdn] + [self.odd.host]
        if len(set(hosts)) != len(hosts):
            raise ValueError("two hosts have the same name")
        for host, rtt_by_peer in self.rtt_ms.items():
            for peer, rtt in rtt_by_peer.items():
                if host not in hosts or peer not in hosts:
                    raise ValueError(f"rtt_ms.{host}.{peer}: no such host")
                if not 1 <= rtt <= 250:
                    raise ValueError(f"rtt_ms.{host}.{peer}: must be 1 to 250 ms")
        self._check_bottlenecks(hosts)
        if sum(answer.share for answer in self.answer) > 1:
            raise ValueError("answer: the sum of the shares exceeds 1")
        special = [s.domain for s in self.special]
        if len(set(special)) != len(special):
            raise ValueError("a special name is declared twice")
        for cdn in self.cdn:
            if cdn.varying and len(cdn.varying.iack) != self.epochs:
                raise ValueError(f"{cdn.name}: `varying.iack` needs one number per epoch")
        return self

    def _check_bottlenecks(self, hosts: list[str]) -> None:
        paths: set[frozenset[str]] = set()
        for entry in self.bottleneck:
            ends = [entry.host] if entry.peer is None else [entry.host, entry.peer]
            for host in ends:
                if host not in hosts:
                    raise ValueError(f"bottleneck: no host {host!r}")
            if frozenset(ends) in paths:
                raise ValueError(f"bottleneck: {' and '.join(ends)} twice")
            paths.add(frozenset(ends))
        senders = [entry.host for entry in self.bottleneck if entry.peer is None and entry.from_host]
        receivers = [entry.host for entry in self.bottleneck if entry.peer is None and entry.to_host]
        declared = {
            pair
            for entry in self.bottleneck
            if entry.peer is not None
            for pair, line in (
                ((entry.host, entry.peer), entry.from_host),
                ((entry.peer, entry.host), entry.to_host),
            )
            if line
        }
        for pair in (
            (source, destination) for source in senders for destination in receivers if source != destination
        ):
            if pair not in declared:
                raise ValueError(
                    f"bottleneck: packets from {pair[0]} to {pair[1]} pass two: "
                    "declare one for the path with `peer`"
                )


def read(path: Path) -> Behaviour:
    """Read and check a behaviour file. Raises UsageError with one sentence if it is wrong."""
    try:
        return Behaviour.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise UsageError(f"cannot read the behaviour file {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"the behaviour file {path} is not UTF-8 text") from error
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"the behaviour file {path} is not TOML: {error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        location = ".".join(str(part) for part in first["loc"])
        raise UsageError(
            f"the behaviour file {path} is wrong at {location or 'top level'}: {first['msg']}"
        ) from error
