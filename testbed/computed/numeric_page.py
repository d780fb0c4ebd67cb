"""Summary and plot of a computed figure: its values, the published values, and whether they agree."""

from __future__ import annotations

from collections.abc import Mapping

from reports import published_values
from reports.numbers.compared import ComparisonPanel, series
from reports.tables.columns import PrintedColumn
from testbed.computed.numeric import Numeric
from testbed.summary import Check, SummaryPage


def summary(figure: Numeric) -> SummaryPage:
    """Return a computed figure's summary; checks and notes on published values only if they are shown."""
    rows = figure.rows()
    columns = [PrintedColumn(name, [_number(row[name]) for row in rows]) for name in rows[0]]
    if not published_values.are_shown():
        return SummaryPage(figure.title, figure.source, columns, notes=figure.notes)
    checks = [
        Check(_named(published.where), f"{_named(published.values)}, within {published.within:g}", "", met)
        for published, met in figure.verdicts()
    ]
    notes = [*figure.published_notes, *figure.notes]
    return SummaryPage(figure.title, figure.source, columns, checks=checks, notes=notes)


def _named(given: Mapping[str, float | str]) -> str:
    return ", ".join(f"{name} {_number(value)}" for name, value in given.items())


def _number(value: float | bool | str) -> str:
    if isinstance(value, str):
        return value
    return ("no", "yes")[value] if isinstance(value, bool) else f"{value:.4g}"


def panels(figure: Numeric) -> list[ComparisonPanel]:
    """Return a computed figure's panels: a curve for each value that rows have in common."""
    rows, shape = figure.rows(), figure.shape
    if shape is None:
        return []
    common = dict.fromkeys(row[shape.alike] for row in rows)
    plots = []
    for value in common:
        group = [row for row in rows if row[shape.alike] == value]
        curves = [
            curve
            for name, label in shape.curves.items()
            for curve in series(label, [(row[shape.across], row[name]) for row in group])
        ]
        plots.append(
            ComparisonPanel(f"{shape.of} {value:g} ms", shape.axis, tuple(curves), shape.across_axis)
        )
    return plots
