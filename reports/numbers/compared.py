"""Values of an experiment beside published ones: what a figure of them shows, without drawing it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Where = str | float
"""Where a value is: a category, or a number on the horizontal axis."""
_MOST_LISTED = 40


@dataclass(frozen=True)
class Series:
    """Values under one name. A `published` series has the look of ours with the same label, and no line."""

    label: str
    points: tuple[tuple[Where, float], ...]
    published: bool = False


@dataclass(frozen=True)
class Panel:
    """One system of axes. `axis`: what the values are, with the unit.

    `across`: what the numbers on the horizontal axis are, with the unit; None: each place is a category, with
    a line of its own.
    """

    title: str
    axis: str
    series: tuple[Series, ...]
    across: str | None = None

    @property
    def categories(self) -> list[str]:
        """Return the categories, in the order of their first value."""
        return list(dict.fromkeys(str(where) for one in self.series for where, _ in one.points))


def series(
    label: str, values: Sequence[tuple[Where, float | None]], *, published: bool = False
) -> tuple[Series, ...]:
    """Return the values that are known as a series; empty if none is."""
    known = tuple((where, value) for where, value in values if value is not None)
    return (Series(label, known, published),) if known else ()


def labels(panels: Sequence[Panel]) -> dict[str, int]:
    """Return each label with the number of its values, in order of appearance."""
    found: dict[str, int] = {}
    for panel in panels:
        for one in panel.series:
            found[one.label] = found.get(one.label, 0) + len(one.points)
    return found


def described(panels: Sequence[Panel]) -> str:
    """Return the text alternative: the values of each panel, or their range where they are many."""
    return " ".join(_described(panel) for panel in panels)


def _described(panel: Panel) -> str:
    many = sum(len(one.points) for one in panel.series) > _MOST_LISTED
    parts = []
    for one in panel.series:
        values = [value for _, value in one.points]
        shown = f"{min(values):.4g} to {max(values):.4g}" if many else ", ".join(map(_point, one.points))
        parts.append(f"{one.label}{' (published)' if one.published else ''}: {shown}")
    return f"{panel.title}, {panel.axis}: {'; '.join(parts)}."


def _point(point: tuple[Where, float]) -> str:
    where, value = point
    return f"{where if isinstance(where, str) else f'at {where:g}'} {value:.4g}"
