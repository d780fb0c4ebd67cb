"""The figure of throughput by file size: median and middle half of each set, a panel per vantage point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from reports import wording
from reports.downloads.figures import MBIT, log_axis
from reports.figures import style

_ROW = 15
"""Height for a set's line, in CSS pixels."""
_FRAME = 74
"""Title and axis for a panel."""
_SPREAD = 0.74
"""The part of a size's height that its sets take."""

Rows = Sequence[Mapping[str, Any]]
"""Rows of sql/download_sizes.sql."""


def looks(rows: Rows) -> dict[str, style.Look]:
    """Return a look for each drawn set; if there are too many, for the sets with most downloads."""
    counts: dict[str, int] = {}
    for row in rows:
        counts[row["of_set"]] = counts.get(row["of_set"], 0) + row["downloads"]
    found = style.looks(counts.items())
    return {name: look for name, look in found.items() if counts.get(name)}


def described(rows: Rows, cities: Mapping[str, str]) -> str:
    """Return a text alternative: the median of each set by vantage point and size."""
    parts = [
        f"{cities.get(row['vantage'], row['vantage'])}, {row['size']}, {row['of_set']}: "
        f"median {row['quartiles_bps'][1] / 1e6:.3g} Mbit/s of {row['downloads']} downloads."
        for row in rows
        if row["downloads"]
    ]
    return wording.plain_long(" ".join(parts) or "No download.")


def draw(rows: Rows, cities: Mapping[str, str], size: style.Size) -> Figure:
    """Draw a panel per vantage point: sizes below each other, in each a line per set."""
    drawn = looks(rows)
    sizes = list(dict.fromkeys(row["size"] for row in rows))
    vantages = list(dict.fromkeys(row["vantage"] for row in rows if row["downloads"]))
    columns = 1 if size.narrow or len(vantages) == 1 else 2
    lines = -(-len(vantages) // columns)
    per_line = 3 if size.narrow else 6
    height = lines * (_FRAME + _ROW * len(sizes) * max(len(drawn), 2)) + 24 * -(-len(drawn) // per_line)
    values = [bps / 1e6 for row in rows if row["downloads"] for bps in row["quartiles_bps"]]
    low, high = min(values, default=1.0) / 1.3, max(values, default=1.0) * 1.3
    with style.drawing():
        figure = style.canvas(size, height)
        grid = figure.subplots(max(lines, 1), columns, squeeze=False, sharey=True)
        for number, axes in enumerate(grid.flat):
            if number >= len(vantages):
                axes.set_visible(False)
                continue
            vantage_rows = [row for row in rows if row["vantage"] == vantages[number] and row["downloads"]]
            _panel(axes, vantage_rows, sizes, drawn)
            axes.set_title(style.name(cities.get(vantages[number], vantages[number])))
            log_axis(axes, (low, high), MBIT.axis)
        keys = [
            Line2D([], [], label=style.name(name), color=look.colour, marker=look.marker, linewidth=1.8)
            for name, look in drawn.items()
        ]
        if keys:
            figure.legend(handles=keys, loc="outside upper left", ncols=per_line, handlelength=1.8)
        return figure


def _panel(axes: Axes, rows: Rows, sizes: Sequence[str], drawn: Mapping[str, style.Look]) -> None:
    for row in rows:
        look = drawn.get(row["of_set"])
        if look is None:
            continue
        shift = _SPREAD * ((list(drawn).index(row["of_set"]) + 0.5) / len(drawn) - 0.5)
        y = sizes.index(row["size"]) + shift
        first, median, third = (bps / 1e6 for bps in row["quartiles_bps"])
        axes.plot([first, third], [y, y], color=look.colour, linewidth=1.8)
        axes.plot(median, y, color=look.colour, marker=look.marker, markersize=6)
    axes.set_yticks(range(len(sizes)), [style.name(size) for size in sizes])
    axes.set_ylim(len(sizes) - 0.45, -0.55)
    axes.tick_params(axis="y", length=0)
