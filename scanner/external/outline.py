"""The scan stage's part of the dry run."""

from __future__ import annotations

from firstflight.egress.permitted import Permitted
from firstflight.run.outline import Known, Outline, Traffic
from firstflight.settings import Settings, Vantage
from scanner.driver.outline import AMPLIFICATION
from scanner.external import forced_negotiation
from scanner.external.stage import check_networks

# Headers of IPv4 and UDP (RFC 791, RFC 768).
_DATAGRAM_BYTES = forced_negotiation.BYTES + 20 + 8


def outline(settings: Settings, known: Known, vantage: Vantage | None) -> Outline:  # noqa: ARG001
    """Return the datagrams of the scan, one for each address. UsageError for a special-purpose network."""
    scan = settings.scan
    check_networks(settings, Permitted((), (), settings.probe.allow_net))
    line = (
        f"scan: {scan.addresses:,} addresses, a datagram each to UDP port {settings.probe.port}; at most "
        f"{scan.rate:g} per second and vantage point; owner: {scan.ownership or 'none'}"
    )
    count = scan.addresses
    traffic = Traffic(count, count * _DATAGRAM_BYTES, AMPLIFICATION * count * _DATAGRAM_BYTES)
    return Outline((line,), traffic=traffic, seconds=count / scan.rate + scan.cooldown_s, sections=("scan",))
