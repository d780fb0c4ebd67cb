"""Draws numbers from the behaviour file's distributions.

Names get stratified quantiles, (i + 1/2) / n, instead of independent samples. The median over an odd number
of names is then exactly the declared median, and a few names already cover the whole distribution, including
its tail.
"""

from __future__ import annotations

import math
import random
from statistics import NormalDist

from lab.declared.behaviour import DelayDistribution


def quantile(distribution: DelayDistribution, q: float) -> int:
    """Return the `q` quantile (0 < q < 1) in microseconds."""
    d = distribution

    def lognormal(p: float) -> float:
        return d.median_ms * math.exp(d.sigma * NormalDist().inv_cdf(p))

    if d.tail_share and q > 1 - d.tail_share:
        # The Pareto continues at the last quantile of the lognormal, so that the distribution has no gap.
        value: float = lognormal(1 - d.tail_share) * ((1 - q) / d.tail_share) ** (-1.0 / d.tail_alpha)
    else:
        value = lognormal(q)
    return round(min(value, d.max_ms) * 1000)


def quantiles(distribution: DelayDistribution, n: int) -> list[int]:
    """Return the `n` stratified quantiles in microseconds, ascending."""
    return [quantile(distribution, (i + 0.5) / n) for i in range(n)]


def symmetric_pairs(n: int, rng: random.Random) -> list[tuple[int, int]]:
    """Pair the indices 0 .. n-1 (n odd) around the middle one, in random order; the middle stays unpaired.

    Removing whole pairs from sorted values does not change the median.
    """
    middle = n // 2
    distances = list(range(1, middle + 1))
    rng.shuffle(distances)
    return [(middle - k, middle + k) for k in distances]
