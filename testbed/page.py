"""An experiment as text: title, table, what was expected, what its captures show, what was not done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reports.tables.columns import Column, drawn
from testbed.experiment import Experiment


@dataclass(frozen=True)
class Check:
    """What is expected, what was found, and whether it is met."""

    about: str
    expected: str
    found: str
    met: bool


def page(
    experiment: Experiment,
    columns: Sequence[Column],
    legend: str,
    checked: Sequence[Check],
    missing: Sequence[str],
    of: int,
    *,
    terminal: bool,
) -> str:
    """Return the text; columns without cells are no table and need no legend.

    `missing`: what of all `of` lines has no trial that was done. `terminal`: with colours and lines.
    """
    out = f"{experiment.title}.\n"
    if experiment.source:
        out += f"Published: {experiment.source}.\n"
    if columns[0].cells:
        out += f"\n{drawn(columns, terminal=terminal)}\n{legend}"
    for one in checked:
        out += f"{one.about}: {'met' if one.met else 'not met'}: {one.expected}: {one.found}.\n"
    for reason in experiment.shows:
        out += f"The captures show: {reason}.\n"
    if missing:
        out += f"Not done here, {len(missing)} of {of}: {', '.join(missing)}.\n"
    return out


def number(value: float | None, digits: int) -> str:
    """Return a number with so many decimals; `-` for null."""
    return "-" if value is None else f"{value:.{digits}f}"
