"""The rows of an experiment by cell, and medians over them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from typing import TypeVar

from firstflight.errors import InputError
from testbed.experiment.cell import Cell
from testbed.experiment.experiment import Experiment
from testbed.trials.trial_row import Row

T = TypeVar("T")


def done(rows: Sequence[Row]) -> list[Row]:
    """Return the trials that were done."""
    return [row for row in rows if row["outcome"] == "done"]


def by_cell(experiment: Experiment, rows: Sequence[Row]) -> list[tuple[Cell, list[Row]]]:
    """Return the cells that `rows` are of, in the experiment's order, with their rows.

    InputError if a row is of a cell that the experiment does not have.
    """
    cells = {cell.name: cell for cell in experiment.cells()}
    found: dict[str, list[Row]] = {name: [] for name in cells}
    for row in rows:
        if row["cell"] not in found:
            raise InputError(
                f"the experiment has no cell {row['cell']} any more: remove the folder of its trials"
            )
        found[row["cell"]].append(row)
    return [(cells[name], own) for name, own in found.items() if own]


def median_of(rows: Sequence[T], value: Callable[[T], float | None]) -> float | None:
    """Return the median of `value` over `rows`; None if all values are None."""
    values = [found for row in rows if (found := value(row)) is not None]
    return median(values) if values else None


def median_ms(rows: Sequence[T], value_us: Callable[[T], float | None]) -> float | None:
    """Return the median of `value_us` over `rows`, in ms; None if all values are None."""
    found = median_of(rows, value_us)
    return None if found is None else found / 1000


def difference(first: float | None, second: float | None) -> float | None:
    """Return the first minus the second; None if one is not known."""
    return None if first is None or second is None else first - second


def column(name: str) -> Callable[[Row], float | None]:
    """Return what reads a column of a row."""
    return lambda row: row[name]


def in_percent(part: float | None, whole: float | None) -> float | None:
    """Return the first in percent of the second; None if one is not known, or the second is zero."""
    return 100 * part / whole if part is not None and whole else None


def quotient(part: str, whole: str) -> Callable[[Row], float | None]:
    """Return what divides one column by another; None without either, or if that is zero."""
    return lambda row: row[part] / row[whole] if row[part] is not None and row[whole] else None


def percent(part: str, whole: str) -> Callable[[Row], float | None]:
    """Return what divides one column by another, in percent; None without either, or if that is zero."""
    return lambda row: in_percent(row[part], row[whole])
