"""Who may probe a prefix when: limits that hold for all vantage points of a campaign together.

The ledger is a rule that every vantage point computes for itself (docs/design has the reasons and the proof):
time is cut into turns, in each turn a prefix (/24, /48) belongs to one vantage point, and at a turn's end
nobody probes it for a while. Within its turns a vantage point has the whole limit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from firstflight.errors import UsageError
from firstflight.settings import Settings

# A turn is so many pauses long: the share of time that a prefix lies idle is 1 / TURN_IN_PAUSES.
TURN_IN_PAUSES = 5


@dataclass(frozen=True)
class Turn:
    """Turns of vantage point `index` of `of`: `length_s` seconds, the last `pause_s` of which are
    nobody's."""

    index: int
    of: int
    length_s: float
    pause_s: float

    def __str__(self) -> str:
        return f"{self.index}/{self.of}:{self.length_s:.3f}:{self.pause_s:.3f}"


def turn_of(settings: Settings, vantage: str) -> Turn | None:
    """The turns of that vantage point; None if it has nobody to share with, or nothing is limited.

    The pause is the longest gap that a limit asks for between two probes, and what clocks may differ by and
    packets be under way: so no gap can be cut short by the next vantage point.
    """
    limits = [
        limit for limit in (settings.probe.per_address_rate, settings.probe.per_prefix_rate) if limit > 0
    ]
    if len(settings.vantage) < 2 or not settings.campaign.shared_limits or not limits:
        return None
    pause_s = 1 / min(limits) + settings.campaign.clock_slack_s
    return Turn(settings.index_of(vantage), len(settings.vantage), TURN_IN_PAUSES * pause_s, pause_s)


def check_watch(settings: Settings, names: int) -> None:
    """Check that a watch of `names` names and the owned ones stays within the limits, whatever their
    addresses.

    Its slots are spread evenly over names and vantage points, so what counts is their number: all names may
    share one address, and all probes one prefix. Raises UsageError that names the numbers.
    """
    watch, probe = settings.watch, settings.probe
    places = (len(settings.vantage) if settings.campaign.shared_limits else 1) * len(watch.families)
    common = names * places / watch.minute_s
    owned = len(watch.owned) * watch.owned_per_minute * places / watch.minute_s
    if probe.per_address_rate and common > probe.per_address_rate:
        raise UsageError(
            f"{names} watched names from all vantage points are {common:.2f} probes a second, and may share "
            f"one address, which gets {probe.per_address_rate:g} (probe.per_address_rate): watch fewer names"
        )
    # An even series of r probes a second has at most ceil(r) in any one second.
    most = math.ceil(common) + math.ceil(owned)
    if probe.per_prefix_rate and most > probe.per_prefix_rate:
        raise UsageError(
            f"the watch sends up to {most} probes a second from all vantage points, and may send them to "
            f"one prefix, which gets {probe.per_prefix_rate:g} (probe.per_prefix_rate): "
            "watch fewer names, or less often"
        )
