"""Decides when each vantage point of a campaign may probe a prefix, so that together they keep its limits.

A vantage point with shards has a turn for each shard, so its shards together also keep the limits. Each
vantage point computes the rule independently (docs/design has the reasons and the proof). Time is divided
into turns. In each turn, a prefix (/24, /48) belongs to one vantage point. A turn ends with a pause in which
no vantage point probes the prefix. During its turns a vantage point may use the whole limit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from firstflight.errors import UsageError
from firstflight.settings import Settings
from firstflight.shard import WHOLE, Shard

# A turn's length in pauses. A prefix is idle for 1 / TURN_IN_PAUSES of the time.
TURN_IN_PAUSES = 5


@dataclass(frozen=True)
class ProbeTurn:
    """Turns of vantage point or shard `index` of `count`: `length_s` seconds, including a final `pause_s`."""

    index: int
    count: int
    length_s: float
    pause_s: float

    def __str__(self) -> str:
        return f"{self.index}/{self.count}:{self.length_s:.3f}:{self.pause_s:.3f}"


def turn_of(settings: Settings, vantage: str, shard: Shard = WHOLE) -> ProbeTurn | None:
    """Return the turns for a vantage point's shard; `None` if it shares no limit or there are no limits.

    An undivided stage (WHOLE) at a vantage point with shards has the turns of the first shard. Without
    `campaign.shared_limits`, vantage points do not share limits, but a vantage point's shards do.

    The pause is the longest gap that a limit requires between two probes, plus slack for clock differences
    and packet delay. So the next vantage point cannot shorten a gap.
    """
    limits = [
        limit for limit in (settings.probe.per_address_rate, settings.probe.per_prefix_rate) if limit > 0
    ]
    index, count = shard.index, settings.vantage_named(vantage).shards
    if settings.campaign.shared_limits:
        preceding = settings.vantage[: settings.index_of(vantage)]
        index += sum(point.shards for point in preceding)
        count = sum(point.shards for point in settings.vantage)
    if count < 2 or not limits:
        return None
    pause_s = 1 / min(limits) + settings.campaign.clock_slack_s
    return ProbeTurn(index, count, TURN_IN_PAUSES * pause_s, pause_s)


def check_watch(settings: Settings, names: int) -> None:
    """Check that a watch of `names` names and the owned names keeps the limits, for any addresses.

    Probes are spread evenly over names and vantage points, so only their number matters. All names may share
    one address, and all probes one prefix. Raise UsageError with the numbers.
    """
    watch, probe = settings.watch, settings.probe
    per_name = settings.shared_by * len(watch.families)
    rate = names * per_name / watch.minute_s
    owned_rate = len(watch.owned) * watch.owned_per_minute * per_name / watch.minute_s
    if probe.per_address_rate and rate > probe.per_address_rate:
        raise UsageError(
            f"{names} watched names from all vantage points are {rate:.2f} probes a second, and may share "
            f"one address, which gets {probe.per_address_rate:g} (probe.per_address_rate): watch fewer names"
        )
    # An even series of r probes per second has at most ceil(r) probes in any second.
    highest = math.ceil(rate) + math.ceil(owned_rate)
    if probe.per_prefix_rate and highest > probe.per_prefix_rate:
        raise UsageError(
            f"the watch sends up to {highest} probes a second from all vantage points, and may send them to "
            f"one prefix, which gets {probe.per_prefix_rate:g} (probe.per_prefix_rate): "
            "watch fewer names, or less often"
        )
