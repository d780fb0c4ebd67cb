"""Compares cells in pairs: repetitions that lost the same datagrams (testbed/trials/network/losses.py)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from testbed.trials.cell_rows import done
from testbed.trials.trial_row import Row

SIGNIFICANT = 0.05


@dataclass(frozen=True)
class Compared:
    """The second cell against the first: `p` is the probability of the two-sided sign test."""

    pairs: int
    median_ms: float
    p: float

    @property
    def direction(self) -> int:
        """Return 1 if the second takes longer, -1 if it takes less time, 0 if the test shows neither."""
        if self.p >= SIGNIFICANT or not self.median_ms:
            return 0
        return 1 if self.median_ms > 0 else -1


def compare(first: Sequence[Row], second: Sequence[Row]) -> Compared | None:
    """Return how the times of transfers differ; None if no repetition was done in both cells."""
    times = [{row["repetition"]: row["transfer_us"] for row in done(rows)} for rows in (first, second)]
    both = sorted(times[0].keys() & times[1].keys())
    differences = [times[1][number] - times[0][number] for number in both]
    if not differences:
        return None
    return Compared(len(both), median(differences) / 1000, sign_test(differences))


def sign_test(differences: Sequence[float]) -> float:
    """Return the probability, two-sided, of signs as uneven as these if both were equally likely.

    Differences of zero do not count; 1 without any other.
    """
    longer = sum(one > 0 for one in differences)
    count = longer + sum(one < 0 for one in differences)
    fewer = min(longer, count - longer)
    tail = sum(math.comb(count, number) for number in range(fewer + 1))
    return min(1.0, float(2 * tail / 2**count))
