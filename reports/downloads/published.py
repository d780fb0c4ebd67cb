"""Percentiles from Figures 1 to 3 of the ANRW 2023 paper and from its authors' later edition."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

from reports import published_values

FILE = Path(__file__).parents[1] / "published" / "anrw_figures.csv"
LEVELS = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95)


@dataclass(frozen=True)
class Quantiles:
    """Published quantiles for a curve at LEVELS: Mbit/s, or ms in Figure 1b; `None` beyond the axis."""

    edition: str
    figure: str
    vantage: str
    curve: str
    values: tuple[float | None, ...]


def quantiles() -> list[Quantiles]:
    """Return the published curves, read from the curves in the papers' PDFs; none if they are hidden."""
    if not published_values.are_shown():
        return []
    columns = [f"p{round(100 * level)}" for level in LEVELS]
    with FILE.open(encoding="utf-8", newline="") as file:
        return [
            Quantiles(
                row["edition"],
                row["figure"],
                row["vantage"],
                row["curve"],
                tuple(float(row[column]) if row[column] else None for column in columns),
            )
            for row in csv.DictReader(file)
        ]
