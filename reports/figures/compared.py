"""Draws values of an experiment next to published ones: dots by category, or curves over a number."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from reports.figures import style
from reports.numbers import spread
from reports.numbers.compared import ComparisonPanel, ComparisonSeries, labels
from reports.numbers.spread import Spread

_ROW = 27
"""Height for a category, in CSS pixels."""
_PANEL = 235
"""Height for a panel with curves."""
_FRAME = 66
"""Title and axis for a panel."""
_SPREAD = 0.56
"""The part of a category's height that its dots take."""
_FINE_DECADES = 1.3
_BOX = 7.0
"""Width of the line between the quartiles."""
_EACH_MARKED, _MARKED = 30, 8
"""Maximum number of points of a curve that each have a marker; the number of markers of longer curves."""
_BELOW: dict[str, Any] = {
    "loc": "upper center",
    "ncols": 2,
    "fontsize": 11,
    "labelspacing": 0.2,
    "columnspacing": 0.8,
    "handletextpad": 0.4,
    "handlelength": 1.5,
}
"""The look of a panel's own legend, which is below the axis."""
_AXIS, _LINE = 36, 16
"""Height of an axis with its text, and of a line of a panel's own legend."""


def looks(panels: Sequence[ComparisonPanel]) -> dict[str, style.Look]:
    """Return a look for each label; labels beyond the number of distinguishable looks have no look."""
    counts = labels(panels)
    # In the order of appearance, so that a label has the same look whatever else is drawn.
    found = style.looks((label, len(counts) - place) for place, label in enumerate(counts))
    return {label: found[label] for label in counts if label in found}


def undrawn(panels: Sequence[ComparisonPanel]) -> list[str]:
    """Return the labels that a panel has but does not draw, because there are too many."""
    drawn = looks(panels)
    return [] if _has_legends(panels) else [label for label in labels(panels) if label not in drawn]


def _has_legends(panels: Sequence[ComparisonPanel]) -> bool:
    """Return whether each panel has a separate legend, because a common one would not have all labels."""
    counts = [len(labels([panel])) for panel in panels]
    return len(labels(panels)) > style.MOST and max(counts) <= style.MOST


def draw(panels: Sequence[ComparisonPanel], size: style.Size) -> Figure:
    """Draw the panels with one legend, or with one legend each if this draws more labels."""
    separate = _has_legends(panels)
    drawn = looks(panels)
    columns = 1 if size.narrow or len(panels) == 1 else 2
    rows = -(-len(panels) // columns)
    heights = [
        max(_height(panel, separate=separate) for panel in panels[row * columns : (row + 1) * columns])
        for row in range(rows)
    ]
    keys = [] if separate else _keys(panels, drawn)
    per_line = 2 if size.narrow else 4
    with style.drawing():
        figure = style.canvas(size, sum(heights) + 14 + 24 * -(-len(keys) // per_line))
        grid = figure.subplots(rows, columns, squeeze=False, gridspec_kw={"height_ratios": heights})
        for number, axes in enumerate(grid.flat):
            if number >= len(panels):
                axes.set_visible(False)
                continue
            panel = panels[number]
            panel_looks = looks([panel]) if separate else drawn
            (_dots if panel.across is None else _curves)(axes, panel, panel_looks)
            axes.set_title(style.name(panel.title))
            if separate:
                under = (0.5, -_AXIS / (axes.get_position().height * figure.get_figheight() * 72))
                axes.legend(handles=_keys([panel], panel_looks), bbox_to_anchor=under, **_BELOW)
        if keys:
            figure.legend(handles=keys, loc="outside upper left", ncols=per_line, handlelength=1.8)
        return figure


def _height(panel: ComparisonPanel, *, separate: bool) -> int:
    legend = _LINE * -(-(len(labels([panel])) + 1) // _BELOW["ncols"]) if separate else 0
    return legend + (_PANEL if panel.across is not None else _FRAME + _ROW * max(len(panel.categories), 2))


def _keys(panels: Sequence[ComparisonPanel], drawn: Mapping[str, style.Look]) -> list[Line2D]:
    curves = any(panel.across is not None for panel in panels)
    keys = [
        Line2D(
            [],
            [],
            label=style.name(label),
            color=look.colour,
            marker=look.marker,
            linestyle=look.dash if curves else "",
        )
        for label, look in drawn.items()
    ]
    if any(series.published for panel in panels for series in panel.series):
        keys.append(Line2D([], [], label="published", linestyle="", marker="o", **_hollow(style.FAINT)))
    return keys


def _dots(axes: Axes, panel: ComparisonPanel, drawn: Mapping[str, style.Look]) -> None:
    """Draw each category on a separate line, one series below the other.

    Several values of a series in a category are a box: a thin line from the least to the greatest value, a
    thick line between the quartiles, and a marker at the median.
    """
    categories = panel.categories
    drawn_series = [series for series in panel.series if series.label in drawn]
    for place, series in enumerate(drawn_series):
        shift = _SPREAD * ((place + 0.5) / len(drawn_series) - 0.5)
        look = drawn[series.label]
        medians = []
        for category, values in series.by_category().items():
            height = categories.index(category) + shift
            box = spread.of(values)
            if box is None:
                continue
            if len(values) > 1:
                _box(axes, box, height, look.colour)
            medians.append((box.median, height))
        axes.plot(*zip(*medians, strict=True), linestyle="", **_marker(series, look))
    axes.set_yticks(range(len(categories)), [style.name(category) for category in categories])
    axes.set_ylim(len(categories) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel(panel.axis)
    values = [value for series in drawn_series for _, value in series.points]
    if values and min(values) >= 0:
        axes.set_xlim(0, max(values) * 1.08 or 1)
    elif values:
        axes.axvline(0, color=style.FAINT, linewidth=0.8)
    axes.xaxis.set_major_locator(MaxNLocator(4))


def _box(axes: Axes, box: Spread, height: float, colour: str) -> None:
    for low, high, width in ((box.least, box.greatest, 1.0), (box.q1, box.q3, _BOX)):
        axes.plot([low, high], [height] * 2, color=colour, linewidth=width, solid_capstyle="butt", alpha=0.5)


def _curves(axes: Axes, panel: ComparisonPanel, drawn: Mapping[str, style.Look]) -> None:
    """Draw our series as curves, and published values as markers."""
    drawn_series = [series for series in panel.series if series.label in drawn]
    for series in drawn_series:
        points = sorted((float(where), value) for where, value in series.points)
        line: dict[str, Any] = (
            {"linestyle": ""}
            if series.published
            else {"linestyle": drawn[series.label].dash, "linewidth": 1.6}
        )
        if len(points) > _EACH_MARKED:
            line["markevery"] = len(points) // _MARKED
        axes.plot(*zip(*points, strict=True), **line, **_marker(series, drawn[series.label]))
    places = [float(where) for series in drawn_series for where, _ in series.points]
    if places and min(places) > 0 and max(places) >= 10 * min(places):
        _logarithmic(axes, min(places), max(places))
    values = [value for series in drawn_series for _, value in series.points]
    if values and min(values) < 0 < max(values):
        axes.axhline(0, color=style.FAINT, linewidth=0.8)
    elif values and min(values) >= 0:
        axes.set_ylim(0, max(values) * 1.08 or 1)
    axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.set_xlabel(panel.across or "")
    axes.set_ylabel(panel.axis)


def _logarithmic(axes: Axes, low: float, high: float) -> None:
    axes.set_xscale("log")
    axes.set_xlim(low / 1.3, high * 1.3)
    steps = (1, 2, 5) if math.log10(high / low) <= _FINE_DECADES else (1, 3)
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [step * 10.0**exponent for exponent in exponents for step in steps]
    ticks = [tick for tick in ticks if low / 1.3 <= tick <= high * 1.3]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()


def _marker(series: ComparisonSeries, look: style.Look) -> dict[str, Any]:
    if series.published:
        return {"marker": look.marker, **_hollow(look.colour)}
    return {"marker": look.marker, "color": look.colour, "markersize": 6.5}


def _hollow(colour: str) -> dict[str, Any]:
    return {
        "color": colour,
        "markerfacecolor": "white",
        "markeredgecolor": colour,
        "markeredgewidth": 1.5,
        "markersize": 6.5,
    }
