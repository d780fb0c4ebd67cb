"""Agreement of two methods on the same pairs: McNemar's test, Cohen's kappa, an interval for a share."""

from __future__ import annotations

import math


def mcnemar(only_first: int, only_second: int) -> tuple[float, float]:
    """Return the two-sided p-values of McNemar's test: exact (conditional) and mid-p.

    `only_first`, `only_second`: numbers of pairs that only one method calls positive; 0 and 0 gives 1 and 1.
    Source: Fagerland, Lydersen, Laake, The McNemar test for binary matched-pairs data, 2013.
    """
    fewer, of = min(only_first, only_second), only_first + only_second
    log_all = math.lgamma(of + 1) - of * math.log(2)

    def probability(k: int) -> float:
        return math.exp(log_all - math.lgamma(k + 1) - math.lgamma(of - k + 1))

    below, at = math.fsum(map(probability, range(fewer))), probability(fewer)
    return min(1.0, 2 * (below + at)), min(1.0, 2 * below + at)


def kappa(both: int, only_first: int, only_second: int, neither: int) -> float | None:
    """Return Cohen's kappa, the agreement beyond chance (Cohen 1960).

    `None` without pairs, and if chance explains all agreement: both methods give every pair the same result.
    """
    pairs = both + only_first + only_second + neither
    first, second = both + only_first, both + only_second
    chance = first * second + (pairs - first) * (pairs - second)  # times pairs squared
    if chance == pairs * pairs:
        return None
    return ((both + neither) * pairs - chance) / (pairs * pairs - chance)


def share(count: int, of: int) -> tuple[float, float, float] | None:
    """Return a share with Wilson's 95 % interval (Wilson 1927); `None` if `of` is 0."""
    if of == 0:
        return None
    z = 1.959963984540054
    found = count / of
    middle = (found + z * z / (2 * of)) / (1 + z * z / of)
    half = z / (1 + z * z / of) * math.sqrt(found * (1 - found) / of + (z / (2 * of)) ** 2)
    # Rounding must not cut the share itself off.
    return found, min(found, max(0.0, middle - half)), max(found, min(1.0, middle + half))
