"""Egress policy for Python programs, with the rules that the native engines apply when they send.

It covers sockets that Python opens, and other scanners. Those have no opt-out lists and have other limits, so
their targets are checked beforehand.
"""

from __future__ import annotations

import csv
import ipaddress
import re
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
"""First and last address in a range, as numbers."""

_MAPPED = int(ipaddress.IPv6Address("::ffff:0:0"))
_NETWORK = re.compile(r"[0-9a-fA-F.:]+(/[0-9]{1,3})?")

SPECIAL_NETWORKS = Path(__file__).with_name("special_networks.csv")


def addresses_in(spans: Iterable[Span]) -> int:
    """Return the number of addresses in disjoint ranges."""
    return sum(last - first + 1 for first, last in spans)


class _Ranges:
    """Disjoint ranges of one family."""

    def __init__(self, spans: Iterable[Span]) -> None:
        self.spans: list[Span] = []
        self.add(spans)

    def add(self, spans: Iterable[Span]) -> None:
        """Add ranges. They may overlap existing ranges."""
        previous, self.spans = self.spans, []
        for first, last in sorted([*previous, *spans]):
            if self.spans and first <= self.spans[-1][1] + 1:
                self.spans[-1] = (self.spans[-1][0], max(last, self.spans[-1][1]))
            else:
                self.spans.append((first, last))

    def __contains__(self, address: int) -> bool:
        index = bisect_right(self.spans, (address, 1 << 128)) - 1
        return index >= 0 and address <= self.spans[index][1]


class _Special(NamedTuple):
    network: Network
    kind: str


def _special() -> list[_Special]:
    with SPECIAL_NETWORKS.open(encoding="utf-8", newline="") as file:
        lines = csv.reader(line for line in file if not line.startswith("#"))
        return [_Special(ipaddress.ip_network(network), kind) for network, kind, _ in lines]


class Permitted:
    """Block and opt-out lists, special-purpose networks, this machine's addresses, and allowed networks.

    `allow`: networks inside private networks or the lab's, like `--allow-net`. `servers`: addresses that only
    a list can forbid, even in the range of a platform's services. `own`: addresses and networks of this
    machine in another network namespace. Changed lists, including the machine's, are read again (`current`).

    Raise InputError for an invalid list, and UsageError for a network that cannot be allowed; nothing was
    sent.
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
        self.entries = 0
        """Number of entries that were read from the lists so far. Entries are only added."""
        self._names: set[str] = set()
        self._listed = _by_version([])
        self._add()
        self._platform = _by_version([network for network, kind in special if kind == "platform"])
        self._special = _by_version([network for network, kind in special if kind == "special"])
        self._own = _by_version([_own(text) for text in own])
        self._allowed = _by_version(allowed)
        self._servers = {ipaddress.ip_address(server) for server in servers}

    def look(self) -> Trust:
        """Re-read changed lists. Return what may be sent (`Current.look`)."""
        trust = self._current.look()
        self._add()
        return trust

    def look_until_complete(self) -> Trust:
        """Like `look`, for programs that call it rarely. It may take a few tenths of a second."""
        trust = self._current.look_until_complete()
        self._add()
        return trust

    @property
    def is_followed(self) -> bool:
        """Whether the machine's list is a copy of the centre's list, which the centre must confirm."""
        return self._current.followed is not None

    def _add(self) -> None:
        spans: dict[int, list[Span]] = {4: [], 6: []}
        for entry in self._current.take():
            self.entries += 1
            if isinstance(entry, str):
                self._names.add(entry)
                continue
            first, last = entry
            spans[first.version].append((int(first), int(last)))
            mapped = _unmapped(int(first), int(last)) if first.version == 6 else None
            if mapped is not None:
                spans[4].append(mapped)
        for version, added in spans.items():
            if added:
                self._listed[version].add(added)

    def needs_contact(self, first: int, last: int, version: int) -> bool:
        """Return whether a range contains addresses of other operators. They require a contact."""
        return any(True for _ in _without(first, last, self._allowed[version].spans))

    def address_needs_contact(self, address: str) -> bool:
        """Return whether an address belongs to another operator, like `needs_contact`."""
        ip = ipaddress.ip_address(address)
        return self.needs_contact(int(ip), int(ip), ip.version)

    def why_not(self, address: str, name: str = "") -> str | None:
        """Return why a target must not be contacted, or `None`. Raise NotTheLab like `lab.check`."""
        self.look()
        ip = ipaddress.ip_address(address)
        if self._is_on_list(ip):
            return "its address is on a list"
        labels = name.lower().rstrip(".").split(".")
        if any(".".join(labels[index:]) in self._names for index in range(len(labels))):
            return "its name is on a list"
        if ip not in self._servers:
            is_allowed = int(ip) in self._allowed[ip.version]
            if self._is_platform(ip) or (int(ip) in self._special[ip.version] and not is_allowed):
                return "its address is special"
            if not is_allowed and self._is_own(ip):
                return "its address is this machine's"
        lab.check(str(ip))
        return None

    def _is_on_list(self, ip: Address) -> bool:
        return any(int(form) in self._listed[form.version] for form in (ip, _plain(ip)))

    def _is_platform(self, ip: Address) -> bool:
        return int(ip) in self._platform[ip.version]

    def _is_own(self, ip: Address) -> bool:
        """Return whether an address belongs to this machine now, here or in another namespace."""
        return int(ip) in self._own[ip.version] or rtnetlink.goes_by_loopback(str(ip))

    def is_listed(self, address: str) -> bool:
        """Return whether an address is on a list or is a platform service. Ignores special-purpose ranges."""
        ip = _plain(ipaddress.ip_address(address))
        return self._is_on_list(ip) or (self._is_platform(ip) and ip not in self._servers)

    def permitted_ipv4(self, spans: Iterable[Span]) -> list[Span]:
        """Return the parts of IPv4 ranges that may be contacted."""
        blocked = self._blocked_ipv4()
        return [part for first, last in spans for part in _without(first, last, blocked)]

    def special_ipv4(self, spans: Iterable[Span]) -> list[Span]:
        """Return the parts of IPv4 ranges in special-purpose networks that are not allowed."""
        special = _Ranges([*self._platform[4].spans, *self._special[4].spans]).spans
        parts = [
            (max(first, low), min(last, high))
            for first, last in spans
            for low, high in special
            if low <= last and first <= high
        ]
        return [part for low, high in parts for part in _without(low, high, self._allowed[4].spans)]

    def blocked_ipv4(self) -> list[str]:
        """Return all IPv4 networks that may not be contacted, as sorted CIDR prefixes."""
        return [
            str(network)
            for first, last in self._blocked_ipv4()
            for network in ipaddress.summarize_address_range(
                ipaddress.IPv4Address(first), ipaddress.IPv4Address(last)
            )
        ]

    def _blocked_ipv4(self) -> list[Span]:
        spans = [*self._listed[4].spans, *self._platform[4].spans]
        local = [_span(network) for network in own_networks() if network.version == 4]
        for first, last in [*self._special[4].spans, *self._own[4].spans, *local]:
            spans += _without(first, last, self._allowed[4].spans)
        return _Ranges(spans).spans


def allowable_networks() -> list[str]:
    """Return the networks that `--allow-net` accepts: loopback, private networks and the lab's."""
    return [str(network) for network, kind in _special() if kind == "allowable"]


def own_networks() -> list[Network]:
    """Return this network namespace's addresses and networks. Raise UsageError if the kernel refuses."""
    try:
        addresses = rtnetlink.own_networks()
    except OSError as error:
        raise UsageError(
            f"the kernel does not return this machine's addresses (rtnetlink: {error.strerror}); "
            "nothing was sent"
        ) from error
    return [ipaddress.ip_network((address, length), strict=False) for address, length in addresses]


def _own(text: str) -> Network:
    try:
        return _network(text)
    except ValueError as error:
        raise UsageError(f"own={text}: {error}; nothing was sent") from error


def _network(text: str) -> Network:
    """Parse `10.0.0.0/8` or an address. Raise ValueError for other forms, and for bits after the prefix."""
    if not _NETWORK.fullmatch(text):
        raise ValueError("it is not a network: write it like 127.0.0.0/8")
    return ipaddress.ip_network(text)


def _plain(ip: Address) -> Address:
    """Return the IPv4 address of an IPv4-mapped address (RFC 4291 2.5.5.2), else the address itself."""
    mapped = ip.ipv4_mapped if isinstance(ip, ipaddress.IPv6Address) else None
    return ip if mapped is None else mapped


def _unmapped(first: int, last: int) -> Span | None:
    """Return the IPv4 addresses in a range of IPv4-mapped addresses; `None` if it has other addresses."""
    is_mapped = first >= _MAPPED and last <= _MAPPED | 0xFFFFFFFF
    return (first - _MAPPED, last - _MAPPED) if is_mapped else None


def _by_version(networks: Sequence[Network]) -> dict[int, _Ranges]:
    return {version: _Ranges(_span(n) for n in networks if n.version == version) for version in (4, 6)}


def _allowable(text: str, special: Sequence[_Special]) -> Network:
    try:
        network = _network(text)
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
    """Yield the parts of a range outside of the sorted `holes`."""
    for low, high in holes:
        if high < first or low > last:
            continue
        if low > first:
            yield first, low - 1
        first = high + 1
    if first <= last:
        yield first, last
