"""Places the name of a curve next to it, away from other curves and names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from reports.figures import style

_CHARACTER, _LINE = 7.2, 15.0  # width of a label's character, height of a line, in pixels
_FAR = np.array([[1e9, 1e9]])


@dataclass(frozen=True)
class LabelledLine:
    """A drawn line in the coordinates of the axes, and the text."""

    text: str
    xs: Sequence[float]
    ys: Sequence[float]
    look: style.Look


def label_lines(axes: Axes, lines: Sequence[LabelledLine]) -> list[str]:
    """Write each line's text next to it, short lines first; return the texts for which there was no space."""
    figure = axes.get_figure(root=True)
    assert figure is not None, "the axes of a page belong to a figure"
    figure.draw_without_rendering()  # fixes the layout
    to_pixels = axes.transData.transform
    scale = 72 / figure.dpi
    frame = axes.get_window_extent()
    box = np.array([frame.x0, frame.y0, frame.x1, frame.y1]) * scale
    drawn = [_interpolated(to_pixels(np.column_stack([line.xs, line.ys])) * scale) for line in lines]
    taken: list[NDArray[np.float64]] = []
    unplaced = []
    for number in sorted(range(len(lines)), key=lambda n: len(drawn[n])):
        line = lines[number]
        others = np.vstack([_FAR, *(points for other, points in enumerate(drawn) if other != number)])
        found = _best_box(drawn[number], others, taken, box, len(line.text) * _CHARACTER)
        if found is None:
            unplaced.append(line.text)
            continue
        taken.append(found)
        x, y = axes.transData.inverted().transform(((found[:2] + found[2:]) / 2) / scale)
        axes.text(x, y, line.text, ha="center", va="center", fontweight="bold", color=line.look.ink)
    return unplaced


def _interpolated(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return points at most 4 pixels apart along a line."""
    pieces = [points[:1]]
    for start, end in pairwise(points):
        count = int(np.ceil(np.hypot(*(end - start)) / 4)) or 1
        pieces.append(start + (end - start) * np.linspace(0, 1, count + 1)[1:, None])
    return np.vstack(pieces)


def _best_box(
    points: NDArray[np.float64],
    others: NDArray[np.float64],
    taken: Sequence[NDArray[np.float64]],
    box: NDArray[np.float64],
    width: float,
) -> NDArray[np.float64] | None:
    """Return the box (left, bottom, right, top) next to `points` with most space; `None` if all overlap."""
    best, best_room = None, 3.0
    for x, y in points:
        for dx, dy in ((7, -_LINE / 2), (-7 - width, -_LINE / 2), (7, -_LINE - 3), (-7 - width, 3)):
            label = np.array([x + dx, y + dy, x + dx + width, y + dy + _LINE])
            if (label[:2] < box[:2] + 2).any() or (label[2:] > box[2:] - 2).any():
                continue
            if _inside(points, label, 1.0):
                continue
            if any(_box_distance(label, other) < 4 for other in taken):
                continue
            room = min(_distance(others, label), 30.0)
            if room > best_room:
                best, best_room = label, room
    return best


def _inside(points: NDArray[np.float64], label: NDArray[np.float64], margin: float) -> bool:
    return bool(((points >= label[:2] - margin) & (points <= label[2:] + margin)).all(axis=1).any())


def _distance(points: NDArray[np.float64], label: NDArray[np.float64]) -> float:
    """Return the distance from the nearest of `points` to the box."""
    gap = np.maximum(np.maximum(label[:2] - points, points - label[2:]), 0)
    return float(np.hypot(gap[:, 0], gap[:, 1]).min())


def _box_distance(box: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    gap = np.maximum(np.maximum(box[:2] - other[2:], other[:2] - box[2:]), 0)
    return float(np.hypot(*gap))
