"""Whether values rise or fall over their positions: Kendall's exact test and the Theil-Sen line.

Kendall's S is the number of rising pairs minus the number of falling pairs. By chance, all orders of the
values are equally likely. The number of orders with a given number of falling pairs is a coefficient of a
Gaussian multinomial (MacMahon 1915). This is also exact for equal values. p is the share of orders with an S
at least as far from 0.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from testbed.experiment.expected import GainExperiment
from testbed.summary import Check

P_BELOW = 0.05
"""There is a trend only if chance makes one as strong with a probability below this."""
LEAST = 5
"""Fewer places never give such a small p: with 4, two of 24 orders rise or fall throughout."""


@dataclass(frozen=True)
class Trend:
    """Kendall's S of `places` values, its two-sided p, and the line's change from first to last place."""

    places: int
    s: int
    p: float
    change: float

    def found(self, within: float) -> bool:
        """Return whether the values have a trend that changes them by more than `within`."""
        return self.p < P_BELOW and abs(self.change) > within


def trend(points: Sequence[tuple[float, float]]) -> Trend | None:
    """Return the trend of values (second) over places (first). All places must differ.

    `None` with fewer than `LEAST` places.
    """
    if len(points) < LEAST:
        return None
    ordered = sorted(points)
    values = [value for _, value in ordered]
    pairs = list(itertools.combinations(values, 2))
    s = sum((after > before) - (after < before) for before, after in pairs)
    slopes = [
        (value - before) / (place - earlier)
        for (earlier, before), (place, value) in itertools.combinations(ordered, 2)
    ]
    change = median(slopes) * (ordered[-1][0] - ordered[0][0])
    return Trend(len(points), s, _p(s, list(Counter(values).values())), change)


def _p(s: int, equal: Sequence[int]) -> float:
    """Return the share of orders with an S at least as far from 0; `equal`: frequency of each value."""
    orders = _orders(equal)
    # The degree of the coefficient is the number of pairs of values that differ.
    differing = len(orders) - 1
    as_far = sum(count for falling, count in enumerate(orders) if abs(differing - 2 * falling) >= abs(s))
    return as_far / sum(orders)


def _orders(equal: Sequence[int]) -> list[int]:
    """Return the numbers of orders with 0, 1, 2, ... falling pairs: the Gaussian multinomial coefficient."""
    above = [1]
    for number in range(1, sum(equal) + 1):
        above = _times(above, number)
    for frequency in equal:
        for number in range(1, frequency + 1):
            above = _divided(above, number)
    return above


def _times(factor: Sequence[int], number: int) -> list[int]:
    """Return the product of a polynomial and 1 + q + ... + q^(number - 1)."""
    return [sum(factor[max(0, power - number + 1) : power + 1]) for power in range(len(factor) + number - 1)]


def _divided(product: Sequence[int], number: int) -> list[int]:
    """Return the polynomial that `_times` with the same `number` turns into `given`."""
    quotient: list[int] = []
    for power in range(len(product) - number + 1):
        quotient.append(product[power] - sum(quotient[max(0, power - number + 1) :]))
    return quotient


@dataclass(frozen=True)
class Gained:
    """A gain at an RTT, for a client and a server; `None` if unknown.

    `more`: the pair's other conditions, as in Gain.
    """

    client: str
    server: str
    rtt_ms: float
    gain_ms: float | None
    more: str = ""


def checks(experiment: GainExperiment, lines: Sequence[Gained]) -> list[Check]:
    """Return whether gains have no trend over the RTTs at which a multiple of g is expected.

    Each combination of further conditions has a separate check. Fewer than `LEAST` such RTTs give no verdict.
    """
    if experiment.trend_ms is None:
        return []
    points: dict[tuple[str, str, str], list[tuple[float, float]]] = {}
    for line in lines:
        accepted, _ = experiment.expected(line.client, line.server, line.rtt_ms)
        if accepted is not None and accepted.g is not None and line.gain_ms is not None:
            points.setdefault((line.client, line.server, line.more), []).append((line.rtt_ms, line.gain_ms))
    verdicts = []
    for (client, server, more), group in points.items():
        gain_trend = trend(group)
        if gain_trend is None:
            continue
        rtts = f"{client} at {gain_trend.places} RTTs from {min(group)[0]:g} to {max(group)[0]:g} ms"
        verdicts.append(
            Check(
                f"{rtts}, {more}, server {server}" if more else f"{rtts}, server {server}",
                f"no trend over the RTT: Kendall's p is {P_BELOW:g} or more, or the gain changes by at most "
                f"{experiment.trend_ms:g} ms",
                # Adding 0.0 turns a negative zero into zero.
                f"S {gain_trend.s:+d}, p {gain_trend.p:.2g}, {round(gain_trend.change, 2) + 0.0:+.2f} ms",
                not gain_trend.found(experiment.trend_ms),
            )
        )
    return verdicts
