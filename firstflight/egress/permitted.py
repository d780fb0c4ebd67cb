"""What Python programs may contact, by the rules that the native engines apply where packets leave.

For sockets that Python opens, and for other scanners: those do not know opt-out lists, and their limits
differ, so what they are given is checked before.
"""

from __future__ import annotations

import csv
import ipaddress
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from firstflight.egress import lab, rtnetlink
from firstflight.egress.current import Current, Trust
from firstflight.errors import UsageError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Span = tuple[int, int]
"""First and last address of a range, as numbers."""

_MAPPED = int(ipaddress.IPv6Address("::ffff:0:0"))

SPECIAL_NETWORKS = Path(__file__).with_name("special_networks.csv")


class _Ranges:
    """Disjoint ranges of one family."""

    def __init__(self, spans: Iterable[Span]) -> None:
        self.spans: list[Span] = []
        self.add(spans)

    def add(self, spans: Iterable[Span]) -> None:
        """Add ranges, which may overlap existing ones."""
        old, self.spans = self.spans, []
        for first, last in sorted([*old, *spans]):
            if self.spans and first <= self.spans[-1][1] + 1:
                self.spans[-1] = (self.spans[-1][0], max(last, self.spans[-1][1]))
            else:
                self.spans.append((first, last))

    def __contains__(self, address: int) -> bool:
        place = bisect_right(self.spans, (address, 1 << 128)) - 1
        return place >= 0 and address <= self.spans[place][1]


class _Special(NamedTuple):
    network: Network
    kind: str


def _special() -> list[_Special]:
    with SPECIAL_NETWORKS.open(encoding="utf-8", newline="") as file:
        lines = csv.reader(line for line in file if not line.startswith("#"))
        return [_Special(ipaddress.ip_network(network), kind) for network, kind, _ in lines]


class Permitted:
    """Block and opt-out lists, special-purpose networks, this machine's addresses, and allowed networks.

    `allow`: networks inside private ones or the lab's, as for `--allow-net`; `servers`: addresses that only a
    list forbids, although a platform's services may be there; `own`: addresses and networks of this machine
    in another network namespace. InputError for a list that is not understood, UsageError for a network that
    cannot be allowed; nothing was sent then. Lists that change are read again (`current`), and so is the
    machine's list.
    """

    def __init__(
        self,
        blocklists: Sequence[Path],
        optouts: Sequence[Path],
        allow: Sequence[str] = (),
        servers: Sequence[str] = (),
        own: Sequence[str] = (),
    ) -> None:
        self._current = Current(blocklists, optouts)
        special = _special()
        allowed = [_allowable(text, special) for text in allow]
        self._names: set[str] = set()
        platform = [network for network, kind in special if kind == "platform"]
        known = sorted(int(ipaddress.ip_address(server)) for server in servers)
        holes = [(number, number) for number in known]
        self._listed = {
            version: _Ranges(
                span for n in platform if n.version == version for span in _without(*_span(n), holes)
            )
            for version in (4, 6)
        }
        self._add()
        by_kind = {
            version: [_span(n) for n, kind in special if kind == "special" and n.version == version]
            for version in (4, 6)
        }
        self._special = {version: _Ranges(spans) for version, spans in by_kind.items()}
        elsewhere = [_own(text) for text in own]
        self._own = {
            version: _Ranges(_span(n) for n in elsewhere if n.version == version) for version in (4, 6)
        }
        self._allowed = {
            version: _Ranges(_span(n) for n in allowed if n.version == version) for version in (4, 6)
        }

    def look(self) -> Trust:
        """Read lists again that have changed; return what may be sent (`Current.look`)."""
        trust = self._current.look()
        self._add()
        return trust

    def look_well(self) -> Trust:
        """Like `look`, for programs that call it rarely: it can take some tenths of a second."""
        trust = self._current.look_well()
        self._add()
        return trust

    @property
    def is_followed(self) -> bool:
        """Whether the machine's list is a copy of the centre's, which the centre must confirm."""
        return self._current.followed is not None

    def _add(self) -> None:
        spans: dict[int, list[Span]] = {4: [], 6: []}
        for entry in self._current.take():
            if isinstance(entry, str):
                self._names.add(entry)
                continue
            first, last = entry
            spans[first.version].append((int(first), int(last)))
            mapped = _unmapped(int(first), int(last)) if first.version == 6 else None
            if mapped is not None:
                spans[4].append(mapped)
        for version, found in spans.items():
            if found:
                self._listed[version].add(found)

    def needs_contact(self, first: int, last: int, version: int) -> bool:
        """Return whether a range contains addresses of other operators, who need a contact."""
        return any(True for _ in _without(first, last, self._allowed[version].spans))

    def why_not(self, address: str, name: str = "") -> str | None:
        """Return why a target must not be contacted, or None. NotTheLab as for `lab.check`."""
        self.look()
        ip = ipaddress.ip_address(address)
        if isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped is not None:
            ip = ip.ipv4_mapped
        number = int(ip)
        if number in self._listed[ip.version]:
            return "its address is on a list"
        if number in self._special[ip.version] and number not in self._allowed[ip.version]:
            return "its address is special"
        labels = name.lower().rstrip(".").split(".")
        if any(".".join(labels[place:]) in self._names for place in range(len(labels))):
            return "its name is on a list"
        if number not in self._allowed[ip.version] and self._is_own(ip):
            return "its address is this machine's"
        lab.check(str(ip))
        return None

    def _is_own(self, ip: Address) -> bool:
        """Return whether an address is this machine's now, here or in another namespace."""
        return int(ip) in self._own[ip.version] or rtnetlink.goes_by_loopback(str(ip))

    def is_listed(self, address: str) -> bool:
        """Return whether an address is on a list or a platform service; ignore special-purpose ranges."""
        ip = ipaddress.ip_address(address)
        if isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped is not None:
            ip = ip.ipv4_mapped
        return int(ip) in self._listed[ip.version]

    def permitted_ipv4(self, spans: Iterable[Span]) -> list[Span]:
        """Return the parts of IPv4 ranges whose addresses may be contacted."""
        blocked = self._blocked_ipv4()
        return [part for first, last in spans for part in _without(first, last, blocked)]

    def blocked_ipv4(self) -> list[str]:
        """Return all IPv4 networks that may not be contacted, as CIDR prefixes, sorted."""
        return [
            str(network)
            for first, last in self._blocked_ipv4()
            for network in ipaddress.summarize_address_range(
                ipaddress.IPv4Address(first), ipaddress.IPv4Address(last)
            )
        ]

    def _blocked_ipv4(self) -> list[Span]:
        spans = [*self._listed[4].spans]
        here = [_span(network) for network in own_networks() if network.version == 4]
        for first, last in [*self._special[4].spans, *self._own[4].spans, *here]:
            spans += _without(first, last, self._allowed[4].spans)
        return _Ranges(spans).spans


def allowable_networks() -> list[str]:
    """Return the networks that `--allow-net` may name: loopback, private networks and the lab's."""
    return [str(network) for network, kind in _special() if kind == "allowable"]


def own_networks() -> list[Network]:
    """Return the addresses and networks of this network namespace. UsageError if the kernel refuses."""
    try:
        found = rtnetlink.own_networks()
    except OSError as error:
        raise UsageError(
            f"the kernel does not say which addresses are this machine's (rtnetlink: {error.strerror}); "
            "nothing was sent"
        ) from error
    return [ipaddress.ip_network((address, length), strict=False) for address, length in found]


def _own(text: str) -> Network:
    try:
        return ipaddress.ip_network(text)
    except ValueError as error:
        raise UsageError(f"own={text}: {error}; nothing was sent") from error


def _unmapped(first: int, last: int) -> Span | None:
    """Return the IPv4 addresses that an IPv6 range holds as IPv4-mapped ones (RFC 4291, section 2.5.5.2)."""
    low, high = max(first, _MAPPED), min(last, _MAPPED | 0xFFFFFFFF)
    return (low - _MAPPED, high - _MAPPED) if low <= high else None


def _allowable(text: str, special: Sequence[_Special]) -> Network:
    try:
        network = ipaddress.ip_network(text)
    except ValueError as error:
        raise UsageError(f"--allow-net {text}: {error}") from error
    first, last = _span(network)
    for outer, kind in special:
        low, high = _span(outer)
        if kind == "allowable" and outer.version == network.version and low <= first and last <= high:
            return network
    raise UsageError(f"--allow-net {text} is not inside loopback, a private network or the lab's")


def _span(network: Network) -> Span:
    return int(network.network_address), int(network.broadcast_address)


def _without(first: int, last: int, holes: Iterable[Span]) -> Iterable[Span]:
    """Yield the parts of a range between sorted holes."""
    for low, high in holes:
        if high < first or low > last:
            continue
        if low > first:
            yield first, low - 1
        first = high + 1
    if first <= last:
        yield first, last
