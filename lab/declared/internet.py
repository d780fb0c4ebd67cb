"""Expands the behaviour file into an `Internet`: every host, endpoint, DNS record, route, link and name.

The expansion is a pure function of the file. Each CDN has its own random numbers, so that changing one entry
does not change anything else.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path

from firstflight.errors import UsageError
from lab.declared import answers, behaviour, file_sites, mirror_sites
from lab.declared.behaviour import Behaviour, CdnEntry, OddEntry, SpecialEntry
from lab.declared.draw import quantiles, symmetric_pairs
from lab.declared.model import (
    Announcement,
    Bottleneck,
    CertificateName,
    DnsRecord,
    Drop,
    EcnPath,
    Endpoint,
    Host,
    HostKind,
    HttpAnswer,
)

DEFAULT = Path(__file__).parents[1] / "internet.toml"

# Addresses are spread over this many /24s of a block, so that limits per /24 cause no waiting.
_SUBNETS = 10


@dataclass(frozen=True)
class Internet:
    """The whole lab as plain data.

    `endpoints` holds one entry per (name, address), over all epochs. `names` are (rank, domain) of the target
    list, from rank 1 without gaps. `servfail` are names in broken zones: the name without its first label is
    a zone that answers SERVFAIL. `nxdomain` are nonexistent names in existing zones. `blocklist` and `optout`
    are lines.
    """

    hosts: tuple[Host, ...]
    endpoints: tuple[Endpoint, ...]
    routes: tuple[Announcement, ...]
    names: tuple[tuple[int, str], ...]
    servfail: tuple[str, ...]
    nxdomain: tuple[str, ...]
    blocklist: tuple[str, ...]
    optout: tuple[str, ...]
    drops: tuple[Drop, ...]
    epochs: int
    cdns: tuple[str, ...]
    bottlenecks: tuple[Bottleneck, ...] = ()
    ecn_paths: tuple[EcnPath, ...] = ()
    _records: tuple[DnsRecord, ...] = field(repr=False, default=())
    _moved: dict[int, dict[str, str]] = field(repr=False, default_factory=dict)
    _rtt_us: dict[frozenset[str], int] = field(repr=False, default_factory=dict)
    _default_rtt_us: int = 1000

    def records(self, epoch: int) -> list[DnsRecord]:
        """Return all A, AAAA, CNAME, HTTPS and TXT records of an epoch (1 to `epochs`)."""
        if not 1 <= epoch <= self.epochs:
            raise UsageError(f"epoch {epoch} does not exist: choose 1 to {self.epochs}")
        moved = self._moved.get(epoch, {})
        return [
            DnsRecord(r.name, r.type, r.ttl, moved[r.name]) if r.type == "A" and r.name in moved else r
            for r in self._records
        ]

    def rtt_us(self, host: str, peer: str) -> int:
        """Return the round-trip time that the link emulator keeps between two hosts, in microseconds."""
        return self._rtt_us.get(frozenset((host, peer)), self._default_rtt_us)

    def bottleneck(self, source: str, destination: str) -> Bottleneck | None:
        """Return the bottleneck of the path, else of the source, else of the destination."""
        for ends in ((source, destination), (source, None), (None, destination)):
            for bottleneck in self.bottlenecks:
                if (bottleneck.from_host, bottleneck.to_host) == ends and source != destination:
                    return bottleneck
        return None

    def host(self, name: str) -> Host:
        """Return the host with this name; UsageError lists the known hosts."""
        for host in self.hosts:
            if host.name == name:
                return host
        raise UsageError(
            f"the lab has no host {name!r}; its hosts are {', '.join(h.name for h in self.hosts)}"
        )


class _Addresses:
    """Allocates a block's addresses, one /24 (or /64) after another."""

    def __init__(self, block4: IPv4Network, block6: IPv6Network) -> None:
        self._block4, self._block6 = block4, block6
        self._next4 = self._next6 = 0

    def v4(self) -> str:
        row, subnet = divmod(self._next4, _SUBNETS)
        self._next4 += 1
        return str(self._block4[subnet * 256 + 1 + row])

    def v6(self) -> str:
        row, subnet = divmod(self._next6, 4)  # four /64s, each a quarter of the block after the previous one
        self._next6 += 1
        return str(self._block6[(subnet << 78) + 1 + row])


def _edge_host(name: str, block4: IPv4Network, block6: IPv6Network, addresses: Iterable[str]) -> Host:
    return Host(name, "edge", str(block4[-2]), str(block6[0xFFFF]), tuple(dict.fromkeys(addresses)))


def _served(name: str, kind: HostKind) -> tuple[str, ...]:
    """Return the additional addresses for a host that is not an edge."""
    if kind == "mirror":
        return tuple(site.ip for site in mirror_sites.sites_of_host(name) if site.ip is not None)
    if kind != "files":
        return ()
    return tuple(site.ip for site in file_sites.sites() if site.ip is not None and not site.is_unserved)


def _edges(spec: Behaviour) -> list[CdnEntry | OddEntry]:
    edges: list[CdnEntry | OddEntry] = list(spec.cdn)
    edges.append(spec.odd)
    return edges


def _bottlenecks(spec: Behaviour) -> Iterator[Bottleneck]:
    for entry in spec.bottleneck:
        for line, source, destination in (
            (entry.to_host, entry.peer, entry.host),
            (entry.from_host, entry.host, entry.peer),
        ):
            if line is not None:
                yield Bottleneck(source, destination, line.rate_bps, line.queue_packets, line.queue_bytes)


@dataclass(frozen=True)
class _Plan:
    """The behaviour of a CDN's names."""

    names: list[str]  # site-NNN of the CDN
    domains: list[str]  # names in the list; some are customers, with a CNAME to a site
    large: set[str]  # with a large certificate
    iack: dict[str, int]  # names that send instant ACKs -> microseconds to the ServerHello, ascending
    waits: list[int]  # for each name as a waiting one: microseconds to the answer
    varying: list[str]  # names that move to another address from epoch to epoch, in pairs
    with_v6: set[str]


class _Shared:
    """Allocates IPv4 addresses to names; the first `shared` also serve a second name with the same stack."""

    def __init__(self, addresses: _Addresses, shared: int) -> None:
        self._addresses = addresses
        self._left = shared
        self._half_full: dict[str, list[str]] = {}  # stack -> addresses with room for another name

    def v4(self, stack: str) -> str:
        """Return the address of the next name."""
        if self._half_full.get(stack):
            return self._half_full[stack].pop()
        ip = self._addresses.v4()
        if self._left:
            self._half_full.setdefault(stack, []).append(ip)
            self._left -= 1
        return ip


class _Builder:
    """Collects the expansion of the behaviour file's entries."""

    def __init__(self, spec: Behaviour) -> None:
        self.spec = spec
        self.endpoints: list[Endpoint] = []
        self.records: list[DnsRecord] = []
        self.domains: list[str] = []
        self.moved: dict[int, dict[str, str]] = {epoch: {} for epoch in range(1, spec.epochs + 1)}
        self.routes = [
            (ip_network(route.prefix), route.path) for edge in _edges(spec) for route in edge.routes
        ]
        self.cdn_of_as = {asn: cdn.name for cdn in spec.cdn for asn in cdn.asns}
        self.overrides = {entry.domain: entry for entry in spec.override}
        self.fields = {edge.host: edge.http for edge in _edges(spec)}

    def origin(self, ip: str) -> tuple[int | None, str | None]:
        """Return the origin AS of an address and its CDN by longest prefix match; nulls if not announced."""
        address = ip_address(ip)
        matches = [(net.prefixlen, path[-1]) for net, path in self.routes if address in net]
        if not matches:
            return None, None
        asn = max(matches)[1]
        return asn, self.cdn_of_as.get(asn, "Others")

    def record(self, name: str, kind: str, data: str) -> None:
        self.records.append(DnsRecord(name, kind, self.spec.ttl, data))  # type: ignore[arg-type]

    def endpoint(
        self,
        domain: str,
        ip: str,
        host: str,
        stack: str,
        mode: str,
        delay_us: int | None,
        certificate: CertificateName,
        outcome: str,
        entry: SpecialEntry | None = None,
    ) -> None:
        override = self.overrides.get(domain)
        if override is not None:
            mode, delay_us = override.mode, round(override.delay_ms * 1000)
            outcome = {"iack": "iack", "wait": "coalesced"}[mode]
        asn, cdn = self.origin(ip)
        self.endpoints.append(
            Endpoint(
                domain,
                ip,
                host,
                stack,
                mode,
                delay_us,
                certificate,
                outcome,
                asn,
                cdn,
                entry.alpn if entry else "h3",
                self.answer(domain, ip, host, entry),
            )
        )

    def answer(self, domain: str, ip: str, host: str, entry: SpecialEntry | None) -> HttpAnswer | None:
        """Return an endpoint's answer to requests, or `None`: declared for a special name, else sampled."""
        if entry and not entry.answers:
            return None
        seed = self.spec.seed
        chosen = (entry.answer or answers.PLAIN) if entry else answers.choose(self.spec.answer, seed, domain)
        return answers.answer(chosen, self.fields[host], seed, domain, ip)

    def cdn(self, cdn: CdnEntry) -> None:
        """Expand one CDN: each name's mode (instant ACK or wait), address and certificate."""
        plan = self._plan(cdn)
        addresses = _Addresses(cdn.block4, cdn.block6)
        shared = _Shared(addresses, cdn.shared)
        turn = 0
        for name, domain, wait_us in zip(plan.names, plan.domains, plan.waits, strict=True):
            stack = cdn.stack
            if domain not in plan.iack and cdn.wait_stacks:
                stack = cdn.wait_stacks[turn % len(cdn.wait_stacks)]
                turn += 1
            varies = domain in plan.varying
            size: CertificateName = "large" if domain in plan.large else "small"
            ip = addresses.v4() if varies else shared.v4(stack)
            mode, delay, outcome = (
                ("iack", plan.iack[domain], "iack") if domain in plan.iack else ("wait", wait_us, "coalesced")
            )
            holder = domain
            if name != domain:
                holder = f"{domain}.edge.{cdn.host}.test"
                self.record(domain, "CNAME", holder)
            self.domains.append(domain)
            self.record(holder, "A", ip)
            self.endpoint(domain, ip, cdn.host, stack, mode, delay, size, outcome)
            if domain in plan.with_v6:
                v6 = addresses.v6()
                self.record(holder, "AAAA", v6)
                self.endpoint(domain, v6, cdn.host, stack, mode, delay, size, outcome)
            if cdn.https:
                self.record(holder, "HTTPS", "1 . alpn=h3,h2")
            if varies and cdn.varying:
                second_ip = addresses.v4()
                self.endpoint(domain, second_ip, cdn.host, stack, "wait", wait_us, size, "coalesced")
                pair = plan.varying.index(domain) // 2
                for epoch, count in enumerate(cdn.varying.iack, start=1):
                    if pair < (cdn.iack - count) // 2:
                        self.moved[epoch][holder] = second_ip

    def _plan(self, cdn: CdnEntry) -> _Plan:
        """Draw the behaviour of each name in a CDN; the same for the same seed."""
        rng = random.Random(f"{self.spec.seed}/{cdn.name}")
        names = [f"site-{i:03d}.{cdn.host}.test" for i in range(1, cdn.names + 1)]
        customers = set(rng.sample(range(cdn.names), cdn.cname))
        domains = [
            f"{cdn.host}-{i + 1:03d}.customers.test" if i in customers else n for i, n in enumerate(names)
        ]
        large = set(rng.sample(domains, round(cdn.large * cdn.names)))
        order = rng.sample(domains, len(domains))
        delays = quantiles(cdn.delay, cdn.iack) if cdn.delay else []
        waits = rng.sample(quantiles(cdn.wait, cdn.names), cdn.names)
        fewest_iack = min(cdn.varying.iack) if cdn.varying else cdn.iack
        pairs = symmetric_pairs(cdn.iack, rng)
        varying_pairs, steady_pairs = (
            pairs[: (cdn.iack - fewest_iack) // 2],
            pairs[(cdn.iack - fewest_iack) // 2 :],
        )
        return _Plan(
            names=names,
            domains=domains,
            large=large,
            iack=dict(zip(order[: cdn.iack], delays, strict=True)),
            waits=waits,
            varying=[order[i] for pair in varying_pairs for i in pair],
            with_v6=self._names_with_v6(cdn, order, steady_pairs, order[cdn.iack :]),
        )

    @staticmethod
    def _names_with_v6(
        cdn: CdnEntry, order: list[str], pairs: list[tuple[int, int]], wait_names: list[str]
    ) -> set[str]:
        """Choose the names with an IPv6 address; instant ACK names in pairs, which keeps the median."""
        want_iack = cdn.aaaa // 2 if wait_names else cdn.aaaa
        chosen = [order[i] for pair in pairs[: want_iack // 2] for i in pair]
        chosen += wait_names[: cdn.aaaa - len(chosen)]
        return set(chosen)

    def special(self, entry: SpecialEntry) -> None:
        """Expand one special name."""
        self.domains.append(entry.domain)
        if not (entry.a or entry.aaaa) and entry.dns_status == "NOERROR":
            self.record(entry.domain, "TXT", "a name without an address")
        delay_us = None if entry.delay_ms is None else round(entry.delay_ms * 1000)
        for kind, ips in (("A", entry.a), ("AAAA", entry.aaaa)):
            for ip in ips:
                self.record(entry.domain, kind, str(ip))
                self.endpoint(
                    entry.domain,
                    str(ip),
                    self.spec.odd.host,
                    entry.stack,
                    entry.mode,
                    delay_us,
                    entry.certificate,
                    entry.outcome,
                    entry,
                )


def expand(spec: Behaviour) -> Internet:
    """Expand a checked behaviour file; `UsageError` if an override names a domain that does not exist."""
    build = _Builder(spec)
    for cdn in spec.cdn:
        build.cdn(cdn)
    for entry in spec.special:
        build.special(entry)
    if unknown := set(build.overrides) - {e.domain for e in build.endpoints}:
        raise UsageError(
            f"the behaviour file overrides {sorted(unknown)[0]!r}, which is not a name with an address"
        )

    hosts = [
        Host(h.name, h.kind, str(h.v4), str(h.v6), _served(h.name, h.kind), tuple(h.tcp.items()))
        for h in spec.host
    ]
    for edge in _edges(spec):
        addresses = (e.ip for e in build.endpoints if e.host == edge.host)
        hosts.append(_edge_host(edge.host, edge.block4, edge.block6, addresses))
    ranked = random.Random(f"{spec.seed}/ranks").sample(build.domains, len(build.domains))
    return Internet(
        hosts=tuple(hosts),
        endpoints=tuple(build.endpoints),
        routes=tuple(Announcement(str(net), path) for net, path in build.routes),
        names=tuple(enumerate(ranked, start=1)),
        servfail=tuple(s.domain for s in spec.special if s.dns_status == "SERVFAIL"),
        nxdomain=tuple(s.domain for s in spec.special if s.dns_status == "NXDOMAIN"),
        blocklist=spec.blocklist,
        optout=spec.optout,
        drops=tuple(Drop(str(ip), s.drop) for s in spec.special if s.drop for ip in (*s.a, *s.aaaa)),
        epochs=spec.epochs,
        cdns=tuple(cdn.name for cdn in spec.cdn),
        bottlenecks=tuple(_bottlenecks(spec)),
        ecn_paths=tuple(
            EcnPath(str(ip), s.path_ecn) for s in spec.special if s.path_ecn for ip in (*s.a, *s.aaaa)
        ),
        _records=tuple(build.records),
        _moved=build.moved,
        _rtt_us={
            frozenset((host, peer)): round(rtt * 1000)
            for host, rtt_by_peer in spec.rtt_ms.items()
            for peer, rtt in rtt_by_peer.items()
        },
        _default_rtt_us=round(spec.default_rtt_ms * 1000),
    )


def load(path: Path = DEFAULT) -> Internet:
    """Read, check and expand a behaviour file; raise a one-sentence UsageError if it is wrong."""
    return expand(behaviour.read(path))
