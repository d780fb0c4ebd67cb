"""Cumulative distributions, on an axis with zero and decades."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from matplotlib.axes import Axes

from reports.figures import style

LINEAR_US = 100
"""The axis is about linear up to this value and logarithmic beyond; the SQL uses the same steps."""


@dataclass(frozen=True)
class Curve:
    """A curve: of `probes` probes, the share `shares[i]` has at most `values_us[i]`."""

    label: str
    values_us: list[int]
    shares: list[float]
    probes: int

    @property
    def at_zero(self) -> float:
        """The share at 0."""
        return self.shares[0] if self.values_us[0] == 0 else 0.0

    @property
    def half_us(self) -> int:
        """The smallest value that half of the rows do not exceed, in microseconds."""
        return next(us for us, share in zip(self.values_us, self.shares, strict=True) if share >= 0.5)


def curves(rows: Iterable[Mapping[str, Any]], value: str) -> list[Curve]:
    """Return the curves in ordered rows of (cdn, `value`, at_most, of_probes)."""
    found = []
    for cdn, group in groupby(rows, key=lambda row: str(row["cdn"])):
        points = list(group)
        shares = [point["at_most"] / point["of_probes"] for point in points]
        found.append(Curve(cdn, [point[value] for point in points], shares, points[0]["of_probes"]))
    return found


def position(us: float) -> float:
    """Return the position of a value on the axis."""
    return math.copysign(math.log10(1 + abs(us) / LINEAR_US), us)


def draw(axes: Axes, curve: Curve, look: style.Look) -> None:
    """Draw a curve as steps. The share at 0 is a dot, because vertical lines at 0 would hide each other."""
    xs, ys = corners(curve)
    axes.plot([*xs, 99], [*ys, 1], **look.line)
    if not curve.values_us[0]:
        axes.plot(0, ys[0], marker="o", markersize=5, color=look.colour, clip_on=False)


def corners(curve: Curve) -> tuple[list[float], list[float]]:
    """Return the corners in a curve's steps: positions on the axis, and shares."""
    first = curve.values_us[0] == 0
    xs = [position(curve.values_us[0])]
    ys = [curve.shares[0] if first else 0.0]
    for us, share in zip(curve.values_us[first:], curve.shares[first:], strict=True):
        xs += [position(us)] * 2
        ys += [ys[-1], share]
    return xs, ys


def delay_axis(axes: Axes, drawn: Iterable[Curve]) -> None:
    """Set ticks in milliseconds on a horizontal axis, and axes that share it, for the range of the curves."""
    values = [us for curve in drawn for us in (curve.values_us[0], curve.values_us[-1])]
    low, high = min(0, *values), max(1000, *values)
    ticks = [0.0, *(sign * 10.0**n for sign in (1, -1) for n in range(-1, 5))]
    shown = sorted(ms for ms in ticks if position(low) - 0.15 <= position(ms * 1000) <= position(high) + 0.15)
    if low < -10_000 and high > 10_000:  # no room for all on both sides
        shown = [ms for ms in shown if abs(ms) not in (0.1, 10_000)]
    axes.set_xticks([position(ms * 1000) for ms in shown], [_ms(ms) for ms in shown])
    minor = [sign * n * 10.0**e for sign in (1, -1) for e in range(2, 7) for n in (2, 5)]
    axes.set_xticks([position(us) for us in minor if low <= us <= high], minor=True)
    axes.set_xlim(position(low) - 0.08, position(high) + 0.08)


def share_axis(axes: Axes, label: str | None) -> None:
    """Set a vertical axis from 0 to 100 %."""
    axes.set_ylim(0, 1.02)
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "25", "50", "75", "100"])
    if label:
        axes.set_ylabel(label)


def _ms(ms: float) -> str:
    return f"{ms:,.0f}".replace("-", "−") if abs(ms) >= 1 or not ms else f"{ms:g}".replace("-", "−")
