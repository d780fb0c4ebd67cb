"""The scan stage's part of the dry run."""

from __future__ import annotations

from firstflight.egress.permitted import Permitted, addresses_in
from firstflight.run.outline import Known, Outline, Traffic
from firstflight.settings import Settings, Vantage
from firstflight.shard import all_of
from scanner.driver.outline import AMPLIFICATION
from scanner.external import forced_negotiation
from scanner.external.stage import check_networks, sweep_at

# Headers of IPv4 and UDP (RFC 791, RFC 768).
_DATAGRAM_BYTES = forced_negotiation.BYTES + 20 + 8


def pace(settings: Settings, vantage: Vantage) -> tuple[int, float]:
    """Return a vantage point's datagrams per second, and the seconds of a scan, without entries of lists.

    Raise UsageError for a special-purpose network, and if ZMap cannot keep the limits.
    """
    permitted = Permitted((), (), settings.probe.allow_net)
    check_networks(settings, permitted)
    total, longest_s = 0, 0.0
    for shard in all_of(vantage.shards):
        sweep = sweep_at(settings, vantage, shard)
        rate, count = sweep.fair_rate(permitted), addresses_in(sweep.spans())
        total, longest_s = total + rate, max(longest_s, count / rate)
    return total, longest_s + settings.scan.cooldown_s


def outline(settings: Settings, known: Known, vantage: Vantage | None) -> Outline:  # noqa: ARG001
    """Return the datagrams of the scan, one for each address. Raise UsageError like `pace`."""
    assert vantage is not None
    scan = settings.scan
    rate, seconds = pace(settings, vantage)
    line = (
        f"scan: {scan.addresses:,} addresses, a datagram each to UDP port {settings.probe.port}; at most "
        f"{scan.rate:g} per second and vantage point; owner: {scan.ownership or 'none'}"
    )
    count = scan.addresses
    traffic = Traffic(count, count * _DATAGRAM_BYTES, AMPLIFICATION * count * _DATAGRAM_BYTES)
    words = f"a scan at {rate} per second"
    return Outline((line,), pace=words, traffic=traffic, seconds=seconds, sections=("scan",))
