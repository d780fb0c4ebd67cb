"""A sweep's options, addresses and rate."""

from __future__ import annotations

import ipaddress
import secrets
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from firstflight.egress import lab
from firstflight.egress.permitted import Permitted, Span
from firstflight.errors import UsageError
from firstflight.shard import WHOLE, Shard
from scanner.external import forced_negotiation

# Average probes per second and /24, as for `firstflight probe` by itself (docs/ethics.md).
PER_PREFIX_RATE = 20


@dataclass(frozen=True)
class Sweep:
    """A sweep's options. `rate`: packets per second; `ports`: the source ports "FIRST-LAST".

    `per_prefix_rate`: average packets per second and /24; 0: no limit. A shard sends to its share of the
    addresses.
    """

    networks: Sequence[str]
    port: int = 443
    rate: float = 100
    per_prefix_rate: float = PER_PREFIX_RATE
    ports: str = "61440-61455"
    contact: str = ""
    cooldown_s: int = 8
    max_targets: int | None = None
    seed: int | None = None
    interface: str | None = None
    source: str | None = None
    gateway_mac: str | None = None
    program: str = "zmap"
    shard: Shard = WHOLE
    source_id: bytes = field(default_factory=lambda: secrets.token_bytes(forced_negotiation.ID_BYTES))
    destination_id: bytes = field(default_factory=lambda: secrets.token_bytes(forced_negotiation.ID_BYTES))

    def parsed(self) -> list[ipaddress.IPv4Network]:
        """Return the networks of the shard, without overlaps.

        Raise UsageError for an invalid or too large network, and NotTheLab for one of the lab elsewhere.
        """
        networks = self._of_shard()
        for text in self.networks:
            _check_lab(text)
        return networks

    def spans(self) -> list[Span]:
        """Return the first and last address of each network of the shard, as numbers. Raise UsageError."""
        return [(int(n.network_address), int(n.broadcast_address)) for n in self._of_shard()]

    def _of_shard(self) -> list[ipaddress.IPv4Network]:
        networks = []
        for text in self.networks:
            try:
                network = ipaddress.ip_network(text)
            except ValueError as error:
                raise UsageError(f"network {text}: {error}") from error
            if not isinstance(network, ipaddress.IPv4Network):
                raise UsageError(f"network {text}: ZMap only sweeps IPv4")
            if network.prefixlen < 8:
                raise UsageError(f"network {text}: name networks of /8 or smaller, not a part of everything")
            networks.append(network)
        return _part(list(ipaddress.collapse_addresses(networks)), self.shard)

    def fair_rate(self, permitted: Permitted) -> int:
        """Return the rate at which no /24 exceeds its average limit, because ZMap has no limits per prefix.

        ZMap probes in random order. So a /24's share of the rate equals its share of the permitted addresses.
        Raise UsageError for a rate below 1, which ZMap does not support.
        """
        rate = self.rate
        counts = _addresses_by_prefix(permitted.permitted_ipv4(self.spans()))
        if counts and self.per_prefix_rate:
            rate = min(rate, self.per_prefix_rate * counts.total() / max(counts.values()))
        if rate < 1:
            raise UsageError(
                f"the rate and the limit per /24 permit {rate:g} packets a second, but ZMap sends at least 1 "
                "packet a second: raise them; nothing was sent"
            )
        return int(rate)


def _part(networks: list[ipaddress.IPv4Network], shard: Shard) -> list[ipaddress.IPv4Network]:
    """Return a shard's addresses, which are consecutive. The lists have no influence on the division.

    ZMap's option --shards divides the permitted addresses. So two shards that start with different lists
    would both scan some addresses, and omit others.
    """
    if shard.is_whole:
        return networks
    total = sum(network.num_addresses for network in networks)
    begin, end = (total * index // shard.count for index in (shard.index, shard.index + 1))
    part: list[ipaddress.IPv4Network] = []
    for network in networks:
        low, high = max(begin, 0), min(end, network.num_addresses) - 1
        if low <= high:
            part += ipaddress.summarize_address_range(network[low], network[high])
        begin, end = begin - network.num_addresses, end - network.num_addresses
    return part


def _check_lab(text: str) -> None:
    # ZMap bypasses the kernel's routes when it sends frames, so a loopback route gives no protection.
    network = ipaddress.IPv4Network(text)
    ranges = map(ipaddress.ip_network, lab.RANGES)
    is_of_lab = any(network.overlaps(known) for known in ranges if isinstance(known, ipaddress.IPv4Network))
    if is_of_lab and not lab.is_lab():
        raise lab.NotTheLab(
            f"network {text} has addresses of the lab, and this is not the lab: nothing was sent"
        )


def _addresses_by_prefix(spans: Iterable[Span]) -> Counter[int]:
    """Count the addresses in each /24 of the ranges."""
    counts: Counter[int] = Counter()
    for first, last in spans:
        for prefix in range(first >> 8, (last >> 8) + 1):
            counts[prefix] += min(last, prefix << 8 | 0xFF) - max(first, prefix << 8) + 1
    return counts
