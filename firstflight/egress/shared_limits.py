"""Limits shared by all vantage points of a campaign: who may probe a prefix when.

A vantage point with shards has a turn for each of them, so the limits hold for its shards together too.
Every vantage point computes the rule independently (docs/design has the reasons and the proof): time is
divided into turns, in each turn a prefix (/24, /48) belongs to one vantage point, and at the end of a turn
there is a pause in which nobody probes it. Within its turns a vantage point has the whole limit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from firstflight.errors import UsageError
from firstflight.settings import Settings
from firstflight.shard import WHOLE, Shard

# Length of a turn in pauses: a prefix is idle for 1 / TURN_IN_PAUSES of the time.
TURN_IN_PAUSES = 5


@dataclass(frozen=True)
class Turn:
    """Turns of vantage point or shard `index` of `of`: `length_s` seconds, the last `pause_s` a pause."""

    index: int
    of: int
    length_s: float
    pause_s: float

    def __str__(self) -> str:
        return f"{self.index}/{self.of}:{self.length_s:.3f}:{self.pause_s:.3f}"


def turn_of(settings: Settings, vantage: str, shard: Shard = WHOLE) -> Turn | None:
    """Return the turns of that vantage point's shard; None if it shares with nobody, or nothing is limited.

    An undivided stage (WHOLE) at a vantage point with shards takes the turns of the first shard. Without
    `campaign.shared_limits` a vantage point shares with no other, but its shards still share.

    The pause is the longest gap that a limit requires between two probes, plus the slack for clock
    differences and packet delay, so that the next vantage point cannot shorten a gap.
    """
    limits = [
        limit for limit in (settings.probe.per_address_rate, settings.probe.per_prefix_rate) if limit > 0
    ]
    index, of = shard.index, settings.vantage_named(vantage).shards
    if settings.campaign.shared_limits:
        before = settings.vantage[: settings.index_of(vantage)]
        index += sum(other.shards for other in before)
        of = sum(other.shards for other in settings.vantage)
    if of < 2 or not limits:
        return None
    pause_s = 1 / min(limits) + settings.campaign.clock_slack_s
    return Turn(index, of, TURN_IN_PAUSES * pause_s, pause_s)


def check_watch(settings: Settings, names: int) -> None:
    """Check that a watch of `names` names and the owned ones keeps the limits, whatever their addresses.

    Probes are spread evenly over names and vantage points, so only their number matters: all names may share
    one address, and all probes one prefix. Raises UsageError with the numbers.
    """
    watch, probe = settings.watch, settings.probe
    per_name = (len(settings.vantage) if settings.campaign.shared_limits else 1) * len(watch.families)
    common = names * per_name / watch.minute_s
    owned = len(watch.owned) * watch.owned_per_minute * per_name / watch.minute_s
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
