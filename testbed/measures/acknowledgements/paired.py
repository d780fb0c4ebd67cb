"""Compares cells in pairs: repetitions that lost the same datagrams (testbed/trials/network/losses.py)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from testbed.trials.cell_rows import done
from testbed.trials.trial_row import TrialRow

SIGNIFICANT = 0.05


@dataclass(frozen=True)
class PairedDifference:
    """The second cell compared with the first: `p` is the probability of the two-sided sign test."""

    pairs: int
    median_ms: float
    p: float

    @property
    def is_decisive(self) -> bool:
        """Return whether there are enough pairs: with five or fewer, no signs are significant."""
        return 2.0 ** (1 - self.pairs) < SIGNIFICANT

    @property
    def direction(self) -> int:
        """Return 1 if the second takes longer, -1 if it is faster, 0 if the test shows no difference."""
        if self.p >= SIGNIFICANT or not self.median_ms:
            return 0
        return 1 if self.median_ms > 0 else -1


def compare(first: Sequence[TrialRow], second: Sequence[TrialRow]) -> PairedDifference | None:
    """Return how the transfer times differ; `None` if no repetition was completed in both cells."""
    times = [{row["repetition"]: row["transfer_us"] for row in done(rows)} for rows in (first, second)]
    common = sorted(times[0].keys() & times[1].keys())
    differences = [times[1][number] - times[0][number] for number in common]
    if not differences:
        return None
    return PairedDifference(len(common), median(differences) / 1000, sign_test(differences))


def sign_test(differences: Sequence[float]) -> float:
    """Return the two-sided probability of signs at least as uneven as these, if both are equally likely.

    Differences of zero do not count; 1 if there are no others.
    """
    longer = sum(difference > 0 for difference in differences)
    count = longer + sum(difference < 0 for difference in differences)
    fewer = min(longer, count - longer)
    tail = sum(math.comb(count, number) for number in range(fewer + 1))
    return min(1.0, float(2 * tail / 2**count))
