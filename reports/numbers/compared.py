"""Values of an experiment next to published ones: a figure's data, without drawing it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reports.numbers import spread

Where = str | float
"""A value's position: a category, or a number on the horizontal axis."""
_MOST_LISTED = 40


@dataclass(frozen=True)
class ComparisonSeries:
    """Values under one name. A `published` series looks like ours with the same label, but has no line.

    Several values in one category are a distribution.
    """

    label: str
    points: tuple[tuple[Where, float], ...]
    published: bool = False

    def by_category(self) -> dict[str, list[float]]:
        """Return the values in each category, in the order of their first value."""
        values: dict[str, list[float]] = {}
        for where, value in self.points:
            values.setdefault(str(where), []).append(value)
        return values


@dataclass(frozen=True)
class ComparisonPanel:
    """One system of axes. `axis`: the quantity of the values, with the unit.

    `across`: the quantity on the horizontal axis, with the unit; `None`: positions are categories, each on a
    separate line.
    """

    title: str
    axis: str
    series: tuple[ComparisonSeries, ...]
    across: str | None = None

    @property
    def categories(self) -> list[str]:
        """Return the categories, in the order of their first value."""
        return list(dict.fromkeys(str(x) for series in self.series for x, _ in series.points))


def series(
    label: str, values: Sequence[tuple[Where, float | None]], *, published: bool = False
) -> tuple[ComparisonSeries, ...]:
    """Return the known values as a series; empty if all are unknown."""
    known = tuple((x, value) for x, value in values if value is not None)
    return (ComparisonSeries(label, known, published),) if known else ()


def labels(panels: Sequence[ComparisonPanel]) -> dict[str, int]:
    """Return each label with its number of values, in order of appearance."""
    counts: dict[str, int] = {}
    for panel in panels:
        for series in panel.series:
            counts[series.label] = counts.get(series.label, 0) + len(series.points)
    return counts


def described(panels: Sequence[ComparisonPanel]) -> str:
    """Return the text alternative: the values of each panel, or the range of many values."""
    return " ".join(_panel_text(panel) for panel in panels)


def _panel_text(panel: ComparisonPanel) -> str:
    many = sum(len(dict(series.points)) for series in panel.series) > _MOST_LISTED
    parts = []
    for series in panel.series:
        values = [value for _, value in series.points]
        if many:
            shown = f"{min(values):.4g} to {max(values):.4g}"
        elif panel.across is None:
            shown = ", ".join(
                f"{category} {_box(values)}" for category, values in series.by_category().items()
            )
        else:
            shown = ", ".join(map(_point, series.points))
        parts.append(f"{series.label}{' (published)' if series.published else ''}: {shown}")
    return f"{panel.title}, {panel.axis}: {'; '.join(parts)}."


def _box(values: Sequence[float]) -> str:
    """Return a value, or the median of several with the quartiles."""
    box = spread.of(values)
    if box is None or len(values) == 1:
        return f"{values[0]:.4g}"
    return f"{box.median:.4g} ({box.q1:.4g} to {box.q3:.4g})"


def _point(point: tuple[Where, float]) -> str:
    x, value = point
    return f"{x if isinstance(x, str) else f'at {x:g}'} {value:.4g}"
