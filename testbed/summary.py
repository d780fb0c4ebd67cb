"""The summary of an experiment's results: title, table, expectations and findings in the captures.

This module writes text; testbed/report.py writes the same content as a page.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from reports import published_values
from reports.tables.columns import PrintedColumn, table_text
from testbed.experiment.experiment import Experiment

UNAVAILABLE = "Unavailable as clients here"


class SummaryLine(Protocol):
    """Medians for a cell, a pair of cells, or a client."""

    def as_dict(self) -> dict[str, Any]:
        """Return the columns as a dictionary."""
        ...


@dataclass(frozen=True)
class Check:
    """An expectation, the result, and whether it is met; `reason`: the explanation from the captures."""

    about: str
    expected: str
    found: str
    met: bool
    reason: str | None = None


@dataclass(frozen=True)
class SummaryPage:
    """Columns without cells give no table and no legend. `notes` are sentences, one per line."""

    title: str
    source: str
    columns: Sequence[PrintedColumn]
    legend: str = ""
    checks: Sequence[Check] = ()
    notes: Sequence[str] = ()

    def text(self, *, terminal: bool) -> str:
        """Return the whole summary as text; `terminal`: with colours and lines."""
        out = f"{self.title}.\n"
        if self.source:
            out += f"Published: {self.source}.\n"
        if self.columns[0].cells:
            out += f"\n{table_text(self.columns, terminal=terminal)}\n{self.legend}"
        for check in self.checks:
            found = f": {check.found}" if check.found else ""
            out += f"{check.about}: {'met' if check.met else 'not met'}: {check.expected}{found}.\n"
            if check.reason is not None:
                out += f"    The captures show: {check.reason}.\n"
        return out + "".join(f"{note}\n" for note in self.notes)


def page(
    experiment: Experiment,
    columns: Sequence[PrintedColumn],
    legend: str,
    checks: Sequence[Check],
    missing: Sequence[str],
    of: int,
    *,
    without: str = "Not done here",
    further: Sequence[str] = (),
) -> SummaryPage:
    """Return the summary of an experiment.

    `missing`: names of the lines, out of `of`, without a completed trial, listed after `without`; `further`:
    notes.
    """
    columns = columns if published_values.are_shown() else _our_columns(columns)
    checks = [_with_reason(experiment, check) for check in checks]
    notes = [*(f"The captures show: {reason}." for reason in experiment.shows), *further]
    if missing:
        notes.append(f"{without}, {len(missing)} of {of}: {', '.join(missing)}.")
    return SummaryPage(experiment.title, experiment.source, columns, legend, checks, notes)


def _our_columns(columns: Sequence[PrintedColumn]) -> list[PrintedColumn]:
    """Return the columns without published ones; a title without a first line continues a heading."""
    shown_columns: list[PrintedColumn] = []
    published = False
    for column in columns:
        published = "publ" in column.title or (published and column.title.startswith("\n"))
        if not published:
            shown_columns.append(column)
    return shown_columns


def _with_reason(experiment: Experiment, check: Check) -> Check:
    """Return a check; an unmet check gets its reason from the experiment's file."""
    if check.met or check.reason is not None:
        return check
    text = f"{check.about}: {check.expected}"
    reason = next(
        (entry.reason for entry in experiment.reason if all(part in text for part in entry.of)), None
    )
    return replace(check, reason=reason)


def headings(columns: Sequence[PrintedColumn]) -> list[str]:
    """Return a name for each column that is clear without the neighbouring columns.

    In a text table, a title's first line may be in the previous column, and `publ.` follows our value.
    """
    texts: list[str] = []
    above = ""
    for column in columns:
        first, _, second = column.title.partition("\n")
        above = first or above
        if first == "publ." and texts:
            texts.append(f"{texts[-1]}, published")
            continue
        joint = "" if above.endswith(("-", "_")) else " "
        texts.append(f"{above.removesuffix('-') if joint == '' else above}{joint}{second}".strip())
    return texts


def number(value: float | None, digits: int) -> str:
    """Return a number with `digits` decimals; `-` for null."""
    return "-" if value is None else f"{value:.{digits}f}"


def count(value: int | None) -> str:
    """Return an integer as text; `-` for null."""
    return "-" if value is None else str(value)


def seconds(value_ms: float | None) -> str:
    """Return a time in ms as seconds with two decimals; `-` for null."""
    return "-" if value_ms is None else f"{value_ms / 1000:.2f}"


def range_text(low: float | None, high: float | None) -> str:
    """Return a range, or its one value; `-` for null."""
    if low is None or high is None:
        return "-"
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"
