"""The rows of an experiment by cell, and medians over them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from typing import TypeVar

from firstflight.errors import InputError
from testbed.experiment.cell import Cell
from testbed.experiment.experiment import Experiment
from testbed.trials.trial_row import TrialRow

T = TypeVar("T")


def done(rows: Sequence[TrialRow]) -> list[TrialRow]:
    """Return the completed trials."""
    return [row for row in rows if row["outcome"] == "done"]


def by_cell(experiment: Experiment, rows: Sequence[TrialRow]) -> list[tuple[Cell, list[TrialRow]]]:
    """Return the cells of `rows` in the experiment's order, each with its rows.

    InputError if a row belongs to a cell that the experiment does not have.
    """
    cells = {cell.name: cell for cell in experiment.cells()}
    rows_of_cells: dict[str, list[TrialRow]] = {name: [] for name in cells}
    for row in rows:
        if row["cell"] not in rows_of_cells:
            raise InputError(
                f"the experiment has no cell {row['cell']} any more: remove the folder of its trials"
            )
        rows_of_cells[row["cell"]].append(row)
    return [(cells[name], cell_rows) for name, cell_rows in rows_of_cells.items() if cell_rows]


def median_of(rows: Sequence[T], value: Callable[[T], float | None]) -> float | None:
    """Return the median of `value` over `rows`; `None` without values."""
    values = [measured for row in rows if (measured := value(row)) is not None]
    return median(values) if values else None


def median_ms(rows: Sequence[T], value_us: Callable[[T], float | None]) -> float | None:
    """Return the median of `value_us` over `rows`, in ms; `None` without values."""
    median_us = median_of(rows, value_us)
    return None if median_us is None else median_us / 1000


def difference(first: float | None, second: float | None) -> float | None:
    """Return the first minus the second; `None` if either is unknown."""
    return None if first is None or second is None else first - second


def column(name: str) -> Callable[[TrialRow], float | None]:
    """Return a function that reads a column in a row."""
    return lambda row: row[name]


def in_percent(part: float | None, whole: float | None) -> float | None:
    """Return the first in percent of the second; `None` if either is unknown, or the second is zero."""
    return 100 * part / whole if part is not None and whole else None


def quotient(part: str, whole: str) -> Callable[[TrialRow], float | None]:
    """Return a function that divides one column by another; `None` if either is null or zero."""
    return lambda row: row[part] / row[whole] if row[part] is not None and row[whole] else None


def percent(part: str, whole: str) -> Callable[[TrialRow], float | None]:
    """Return a function like `quotient`, in percent."""
    return lambda row: in_percent(row[part], row[whole])
