"""Which formula a client's RTT variation follows, by its own log (paper 000, appendix E).

RFC 9002 subtracts a sample from the smoothed RTT before the update (appendix A.7), or after it (section 5.3).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import gcd

from dissector.qlog.read import MetricsRow

_WEIGHT = 8
"""A sample has an eighth of the weight in the smoothed RTT (RFC 9002, 5.3)."""
_ROUNDED = 3
"""Largest error of a prediction from rounded values, in units of the log's resolution."""


@dataclass(frozen=True)
class Variance:
    """The number of updates by the formula that they fit.

    `updates`: updates for which the formulas differ by more than the rounding. `before`, `after`: the
    sample's distance to the smoothed RTT before and after its update; `smallest`: to the smallest RTT.
    """

    updates: int = 0
    before: int = 0
    after: int = 0
    smallest: int = 0

    def __add__(self, other: Variance) -> Variance:
        """Return the sums."""
        return Variance(
            self.updates + other.updates,
            self.before + other.before,
            self.after + other.after,
            self.smallest + other.smallest,
        )

    def text(self) -> str:
        """Return the formula that the most updates fit, with their share; `-` without updates."""
        if not self.updates:
            return "-"
        names = {"A.7": self.before, "5.3": self.after, "smallest": self.smallest}
        name = max(names, key=lambda name: names[name])
        return f"{name} {100 * names[name] / self.updates:.0f} %" if names[name] else "none"


def counted(rows: Sequence[MetricsRow]) -> Variance:
    """Return how many updates in a log fit each formula. `rows`: of dissector.qlog.read.metrics."""
    updates = [row for row in rows if row["updated"] and row["min_rtt_us"] is not None]
    values = [row[name] for row in updates for name in ("smoothed_rtt_us", "rtt_variance_us")]
    tolerance_us = _ROUNDED * max(1, gcd(*values))
    total = Variance()
    for old, new in pairwise(updates):
        smoothed_us = old["smoothed_rtt_us"]
        # The sample follows from the smoothed RTT, whether the client subtracted ACK Delay or not.
        sample_us = smoothed_us + _WEIGHT * (new["smoothed_rtt_us"] - smoothed_us)
        predicted = [
            0.75 * old["rtt_variance_us"] + 0.25 * abs(reference_us - sample_us)
            for reference_us in (smoothed_us, new["smoothed_rtt_us"], new["min_rtt_us"])
        ]
        ordered = sorted(predicted)
        if min(high - low for low, high in pairwise(ordered)) <= 2 * tolerance_us:
            continue
        fits = [abs(value - new["rtt_variance_us"]) <= tolerance_us for value in predicted]
        total += Variance(1, *map(int, fits))
    return total
