"""Confidence intervals of Table 1's shares: the percentile bootstrap over names.

Names are resampled, not probes: a name behaves alike at every vantage point and repetition, so its probes are
not independent. Names with equal results everywhere form one pattern. A resample of N names is a multinomial
draw of pattern counts. This is equivalent, and needs little memory for a quarter of a million names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 2000
SEED = 1
LEVEL = 0.95

Interval = tuple[float, float]


@dataclass(frozen=True)
class NamePattern:
    """`names` names with the same `cells`: (vantage, repetition) -> (hits, number of probes) of each name."""

    names: int
    cells: dict[tuple[str, int], tuple[int, int]]


@dataclass(frozen=True)
class Intervals:
    """Intervals of the highest share and of the variation (shares, 0 to 1); `None` if nothing was counted."""

    share_max: Interval | None
    variation: Interval | None


def patterns(rows: Sequence[dict[str, Any]], cdn: str, *, by_outcome: bool) -> list[NamePattern]:
    """Return a CDN's patterns from rows of queries/name_patterns.sql, the paper's way or by outcome."""
    return [
        NamePattern(row["names"], _cells(row["pattern"], by_outcome=by_outcome))
        for row in rows
        if row["cdn"] == cdn
    ]


def _cells(probes: Sequence[Sequence[Any]], *, by_outcome: bool) -> dict[tuple[str, int], tuple[int, int]]:
    """Return hits and number of probes per cell for a name."""
    cells: dict[tuple[str, int], tuple[int, int]] = {}
    for vantage, repetition, counted, instant, answered, iack in probes:
        hits, of = cells.get((vantage, repetition), (0, 0))
        cells[vantage, repetition] = (
            (hits + iack, of + answered) if by_outcome else (hits + instant, of + counted)
        )
    return cells


def intervals(found: Sequence[NamePattern], resamples: int = RESAMPLES, seed: int = SEED) -> Intervals:
    """Return the `LEVEL` percentile interval over `resamples` draws; equal seeds give equal bounds."""
    cells = sorted({cell for pattern in found for cell in pattern.cells})
    total = sum(pattern.names for pattern in found)
    if not total:
        return Intervals(None, None)
    hits = np.array([[pattern.cells.get(cell, (0, 0))[0] for cell in cells] for pattern in found])
    of = np.array([[pattern.cells.get(cell, (0, 0))[1] for cell in cells] for pattern in found])
    weights = np.array([pattern.names for pattern in found]) / total
    draws = np.random.default_rng(seed).multinomial(total, weights, size=resamples)
    counted = draws @ of
    with np.errstate(invalid="ignore", divide="ignore"):
        shares = (draws @ hits) / counted  # nan where a draw counted nothing in a cell
    shares = shares[(counted > 0).any(axis=1)]
    if not len(shares):
        return Intervals(None, None)
    highest = np.nanmax(shares, axis=1)
    return Intervals(_bounds(highest), _bounds(highest - np.nanmin(shares, axis=1)))


def _bounds(values: NDArray[np.float64]) -> Interval:
    low, high = np.quantile(values, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)
