"""Figures 1 to 3 of the ANRW paper: throughput and round-trip time of TCP downloads, as cumulative shares."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from reports import wording
from reports.figures import cdf, style

# Steps per decade in sql/download_curves.sql.
_PER_DECADE = 40
_TICKS = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0, 10_000.0)


@dataclass(frozen=True)
class Unit:
    """A figure's unit: the name of the axis, and its size in the store's unit (bit/s, us)."""

    axis: str
    divisor: float


MBIT = Unit("Throughput [Mbit/s]", 1e6)
MS = Unit("Mean round-trip time [ms]", 1e3)


@dataclass(frozen=True)
class DownloadCurve:
    """Of `samples` samples, the share `shares[i]` is at most `values[i]`, in the figure's unit."""

    label: str
    values: list[float]
    shares: list[float]
    samples: int
    median: float


@dataclass(frozen=True)
class DownloadPanel:
    """One system of axes."""

    title: str
    unit: Unit
    curves: list[DownloadCurve]


def figure1(rows: Sequence[Mapping[str, Any]], cities: Mapping[str, str]) -> list[DownloadPanel]:
    """Return the panels of Figure 1: throughput and round-trip time, with a curve for each vantage point."""
    return [
        DownloadPanel(title, unit, _curves(rows, figure, unit, label="vantage", names=cities))
        for figure, title, unit in (("1a", "a: throughput", MBIT), ("1b", "b: round-trip time", MS))
    ]


def of_vantages(
    rows: Sequence[Mapping[str, Any]], figure: str, cities: Mapping[str, str]
) -> list[DownloadPanel]:
    """Return a panel for each vantage point of Figure 2, 3 or 3n: a curve for each set or CDN."""
    vantages = dict.fromkeys(str(row["vantage"]) for row in rows if row["figure"] == figure)
    return [
        DownloadPanel(
            cities.get(vantage, vantage),
            MBIT,
            _curves([row for row in rows if row["vantage"] == vantage], figure, MBIT),
        )
        for vantage in sorted(vantages)
    ]


def _curves(
    rows: Iterable[Mapping[str, Any]],
    figure: str,
    unit: Unit,
    label: str = "curve",
    names: Mapping[str, str] | None = None,
) -> list[DownloadCurve]:
    return [
        DownloadCurve(
            (names or {}).get(row[label], row[label]),
            [10 ** (step / _PER_DECADE) / unit.divisor for step in row["steps"]],
            [count / row["samples"] for count in row["at_most"]],
            row["samples"],
            row["quantiles"][3] / unit.divisor,
        )
        for row in rows
        if row["figure"] == figure and row["samples"]
    ]


def looks(panels: Iterable[DownloadPanel]) -> dict[str, style.Look]:
    """Return a look for each curve in a figure; if there are too many, for the curves with most samples."""
    counts: dict[str, int] = {}
    for panel in panels:
        for curve in panel.curves:
            counts[curve.label] = counts.get(curve.label, 0) + curve.samples
    found = style.looks(counts.items())
    return {label: look for label, look in found.items() if label in counts}


def described(panels: Sequence[DownloadPanel]) -> str:
    """Return a text alternative: the median of each curve."""
    parts = []
    for panel in panels:
        curves = "; ".join(f"{curve.label}: median {curve.median:.3g}" for curve in panel.curves)
        parts.append(f"{panel.title}, {panel.unit.axis}: {curves or 'no download'}.")
    return wording.plain_long(" ".join(parts))


def draw(panels: Sequence[DownloadPanel], size: style.Size) -> Figure:
    """Draw the panels, with one legend."""
    drawn = looks(panels)
    with style.drawing():
        columns = 1 if size.narrow or len(panels) == 1 else 2
        rows = -(-len(panels) // columns)
        figure = style.canvas(size, 235 * rows + (30 + 22 * -(-len(drawn) // (2 if size.narrow else 5))))
        grid = figure.subplots(rows, columns, squeeze=False, sharey=True)
        for number, axes in enumerate(grid.flat):
            if number < len(panels):
                same_unit = [panel for panel in panels if panel.unit == panels[number].unit]
                _panel(axes, panels[number], drawn, _span(same_unit))
                cdf.share_axis(axes, "Downloads [%]" if number % columns == 0 else None)
            else:
                axes.set_visible(False)
        keys = [Line2D([], [], label=style.name(label), **look.line) for label, look in drawn.items()]
        figure.legend(handles=keys, loc="outside upper left", ncols=2 if size.narrow else 5)
        return figure


def log_axis(axes: Axes, span: tuple[float, float], label: str) -> None:
    """Set a logarithmic horizontal axis of this range."""
    low, high = span
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    ticks = [factor * tick for tick in _TICKS for factor in ((1,) if high / low > 100 else (1, 2, 5))]
    shown = [tick for tick in ticks if low <= tick <= high]
    axes.set_xticks(shown, [f"{tick:,g}" for tick in shown])
    axes.set_xticks([], minor=True)
    axes.set_xlabel(label)


def _span(panels: Sequence[DownloadPanel]) -> tuple[float, float]:
    """Return the range of the axis that panels share: somewhat more than their curves span."""
    values = [value for panel in panels for curve in panel.curves for value in curve.values]
    return min(values, default=1.0) / 1.3, max(values, default=1.0) * 1.3


def _panel(
    axes: Axes, panel: DownloadPanel, drawn: Mapping[str, style.Look], span: tuple[float, float]
) -> None:
    """Draw a panel's curves as steps, on a logarithmic axis of this range."""
    low, high = span
    log_axis(axes, span, panel.unit.axis)
    axes.set_title(style.name(panel.title))
    for curve in panel.curves:
        if curve.label in drawn:
            xs, ys = [low, *curve.values, high], [0.0, *curve.shares, 1.0]
            axes.plot(xs, ys, drawstyle="steps-post", **drawn[curve.label].line)
