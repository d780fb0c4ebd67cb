"""Whether values rise or fall over their positions: Kendall's exact test and the Theil-Sen line.

Kendall's S is the number of rising pairs minus the number of falling pairs. By chance, all orders of the
values are equally likely. The number of orders with a given number of falling pairs is a coefficient of a
Gaussian multinomial (MacMahon 1915). This is exact for equal values, too. p is the share of orders whose S is
at least as far from 0.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from testbed.experiment.experiment import Experiment
from testbed.measures.gain import expected_of
from testbed.measures.page import Check

P_BELOW = 0.05
"""There is a trend only if chance alone has one as strong less often than this."""
LEAST = 5
"""With fewer places no order at all is so rare: of 4, the two that rise or fall throughout are 2 of 24."""


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

    None if there are fewer than `LEAST`.
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
    """Return the share of orders with an S as far from 0; `equal`: how often each value occurs."""
    orders = _orders(equal)
    # The degree of the coefficient is the number of pairs of values that differ.
    differing = len(orders) - 1
    as_far = sum(count for falling, count in enumerate(orders) if abs(differing - 2 * falling) >= abs(s))
    return as_far / sum(orders)


def _orders(equal: Sequence[int]) -> list[int]:
    """Return how many orders have 0, 1, 2, ... falling pairs: the Gaussian multinomial coefficient."""
    above = [1]
    for number in range(1, sum(equal) + 1):
        above = _times(above, number)
    for one in equal:
        for number in range(1, one + 1):
            above = _divided(above, number)
    return above


def _times(given: Sequence[int], number: int) -> list[int]:
    """Return the product of a polynomial and 1 + q + ... + q^(number - 1)."""
    return [sum(given[max(0, power - number + 1) : power + 1]) for power in range(len(given) + number - 1)]


def _divided(given: Sequence[int], number: int) -> list[int]:
    """Return what `_times` made `given` of."""
    made: list[int] = []
    for power in range(len(given) - number + 1):
        made.append(given[power] - sum(made[max(0, power - number + 1) :]))
    return made


@dataclass(frozen=True)
class Gained:
    """A gain at an RTT, of a client and a server; None: it is not known.

    `more`: in what else its pair of cells differs from others of the same stacks, as Gain has it.
    """

    client: str
    server: str
    rtt_ms: float
    gain_ms: float | None
    more: str = ""


def checks(experiment: Experiment, found: Sequence[Gained]) -> list[Check]:
    """Return whether gains have no trend over the RTTs at which a multiple of g is expected.

    Each combination of further conditions has a separate check. Fewer than `LEAST` such RTTs give no verdict.
    """
    if experiment.trend_ms is None:
        return []
    points: dict[tuple[str, str, str], list[tuple[float, float]]] = {}
    for one in found:
        accepted, _ = expected_of(experiment, one.client, one.server, one.rtt_ms)
        if accepted is not None and accepted.g is not None and one.gain_ms is not None:
            points.setdefault((one.client, one.server, one.more), []).append((one.rtt_ms, one.gain_ms))
    made = []
    for (client, server, more), own in points.items():
        over = trend(own)
        if over is None:
            continue
        rtts = f"{client} at {over.places} RTTs from {min(own)[0]:g} to {max(own)[0]:g} ms"
        made.append(
            Check(
                f"{rtts}, {more}, server {server}" if more else f"{rtts}, server {server}",
                f"no trend over the RTT: Kendall's p is {P_BELOW:g} or more, or the gain changes by at most "
                f"{experiment.trend_ms:g} ms",
                # Without 0.0 a zero may be printed with a minus.
                f"S {over.s:+d}, p {over.p:.2g}, {round(over.change, 2) + 0.0:+.2f} ms",
                not over.found(experiment.trend_ms),
            )
        )
    return made
