"""The distribution of a few values as a box plot shows it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass
from statistics import quantiles


@dataclass(frozen=True)
class Spread:
    """The least value, the quartiles, and the greatest value, in the unit of the values."""

    least: float
    q1: float
    median: float
    q3: float
    greatest: float

    @property
    def values(self) -> tuple[float, ...]:
        """Return the five values, ascending."""
        return astuple(self)


def of(values: Iterable[float | None]) -> Spread | None:
    """Return the spread of the known values; `None` without any.

    Quartiles are interpolated between values, as in R's default (type 7). The spread of a spread's five
    values is the same.
    """
    known = sorted(value for value in values if value is not None)
    if not known:
        return None
    q1, median, q3 = quantiles(known, n=4, method="inclusive") if len(known) > 1 else known * 3
    return Spread(known[0], q1, median, q3, known[-1])
