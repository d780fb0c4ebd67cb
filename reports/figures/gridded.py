"""Draws maps that compare two methods over two conditions: a cell for each place, with its value."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from reports.figures import style
from reports.numbers.gridded import Map, Maps

FILLS = {0: "#b9d8ea", 1: "#f5cda9", -1: "#eeeeee"}
"""For the first, the second and neither: light enough for text of style.INK; signs distinguish them, too."""
_CELL = 22
"""Height for a cell, in CSS pixels."""
_FRAME = 64
"""Title and axis for a map."""
_COLUMNS = 3
_KEYS = 40
_TEXT = 10.5


def draw(maps: Maps, size: style.Size) -> Figure:
    """Draw the maps, with one legend."""
    columns = 1 if size.narrow else min(_COLUMNS, len(maps.maps))
    rows = -(-len(maps.maps) // columns)
    down, across = maps.places
    with style.drawing():
        figure = style.canvas(size, rows * (_FRAME + _CELL * len(down)) + _KEYS * (2 if size.narrow else 1))
        grid = figure.subplots(rows, columns, squeeze=False)
        for number, axes in enumerate(grid.flat):
            if number >= len(maps.maps):
                axes.set_visible(False)
                continue
            _map(axes, maps.maps[number], down, across)
            if number + columns >= len(maps.maps):
                axes.set_xlabel(maps.across)
            if number % columns == 0:
                axes.set_ylabel(maps.down)
        keys = [
            Patch(facecolor=FILLS[which], edgecolor=style.FAINT, linewidth=0.6, label=style.name(label))
            for which, label in zip((0, 1, -1), maps.names, strict=True)
        ]
        figure.legend(handles=keys, loc="outside upper left", ncols=1 if size.narrow else 3, handlelength=1.4)
        return figure


def _map(axes: Axes, map_: Map, down: list[float], across: list[float]) -> None:
    axes.grid(visible=False)
    for row, y in enumerate(down):
        for column, x in enumerate(across):
            which = map_.better(y, x)
            if which is None:
                continue
            axes.add_patch(
                Rectangle((column - 0.5, row - 0.5), 1, 1, facecolor=FILLS[which], edgecolor="white")
            )
            if which >= 0:
                value = map_.values[y, x]
                axes.text(column, row, short_number(value), ha="center", va="center", fontsize=_TEXT)
    axes.set_xlim(-0.5, len(across) - 0.5)
    axes.set_ylim(len(down) - 0.5, -0.5)
    axes.set_xticks(range(len(across)), [f"{x:g}" for x in across])
    axes.set_yticks(range(len(down)), [f"{y:g}" for y in down])
    axes.tick_params(length=0, labelsize=_TEXT)
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)
    axes.set_title(style.name(map_.title))


def short_number(value: float) -> str:
    """Return a value in two to four characters, with a minus sign where it is negative."""
    text = f"{value:.1f}" if abs(value) < 9.95 else f"{value:.0f}"
    return text.replace("-", "−")
