"""The summary of an experiment's results: title, table, expectations and findings in the captures.

This module writes text; testbed/report.py writes the same content as a page.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from reports.tables.columns import Column, drawn
from testbed.experiment.experiment import Experiment

UNAVAILABLE = "Unavailable as clients here"


class Line(Protocol):
    """Medians of a cell, of a pair of cells, or of a client."""

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
class Page:
    """Columns without cells are no table and need no legend. `notes` are sentences, a line each."""

    title: str
    source: str
    columns: Sequence[Column]
    legend: str = ""
    checks: Sequence[Check] = ()
    notes: Sequence[str] = ()

    def text(self, *, terminal: bool) -> str:
        """Return the whole summary as text; `terminal`: with colours and lines."""
        out = f"{self.title}.\n"
        if self.source:
            out += f"Published: {self.source}.\n"
        if self.columns[0].cells:
            out += f"\n{drawn(self.columns, terminal=terminal)}\n{self.legend}"
        for one in self.checks:
            found = f": {one.found}" if one.found else ""
            out += f"{one.about}: {'met' if one.met else 'not met'}: {one.expected}{found}.\n"
            if one.reason is not None:
                out += f"    The captures show: {one.reason}.\n"
        return out + "".join(f"{note}\n" for note in self.notes)


def page(
    experiment: Experiment,
    columns: Sequence[Column],
    legend: str,
    checks: Sequence[Check],
    missing: Sequence[str],
    of: int,
    *,
    without: str = "Not done here",
    further: Sequence[str] = (),
) -> Page:
    """Return the summary of an experiment.

    `missing`: what of all `of` lines has no trial that was done, named after `without`; `further`: notes.
    """
    checks = [_with_reason(experiment, one) for one in checks]
    notes = [*(f"The captures show: {reason}." for reason in experiment.shows), *further]
    if missing:
        notes.append(f"{without}, {len(missing)} of {of}: {', '.join(missing)}.")
    return Page(experiment.title, experiment.source, columns, legend, checks, notes)


def _with_reason(experiment: Experiment, check: Check) -> Check:
    """Return a check; an unmet check gets its reason from the experiment's file."""
    if check.met or check.reason is not None:
        return check
    text = f"{check.about}: {check.expected}"
    reason = next((one.reason for one in experiment.reason if all(part in text for part in one.of)), None)
    return replace(check, reason=reason)


def headings(columns: Sequence[Column]) -> list[str]:
    """Return a name for each column that is clear without the neighbouring columns.

    In a text table, a title's first line may come from the previous column, and `publ.` follows our value.
    """
    made: list[str] = []
    above = ""
    for column in columns:
        first, _, second = column.title.partition("\n")
        above = first or above
        if first == "publ." and made:
            made.append(f"{made[-1]}, published")
            continue
        joint = "" if above.endswith(("-", "_")) else " "
        made.append(f"{above.removesuffix('-') if joint == '' else above}{joint}{second}".strip())
    return made


def number(value: float | None, digits: int) -> str:
    """Return a number with `digits` decimals; `-` for null."""
    return "-" if value is None else f"{value:.{digits}f}"


def between(low: float | None, high: float | None) -> str:
    """Return a range, or its one value; `-` for null."""
    if low is None or high is None:
        return "-"
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"
