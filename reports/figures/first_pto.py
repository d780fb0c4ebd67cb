"""Figure 4 of the paper: how much an instant ACK shortens the first PTO, with the measured CDNs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from reports import wording
from reports.figures import style
from reports.figures.plan import FigurePlan, PartWithFigures
from reports.numbers import rfc9002
from reports.question import QueryAnswer, ask
from store import Store

DELTAS_MS = (1, 3, 10, 30, 100)
"""Delays between frontend and certificate store for which curves are drawn."""

_LEAST, _MOST = 0.02, 60.0  # range of improvements in the figure, in RTTs
_PAPER: dict[str, Any] = {"color": style.FAINT, "linewidth": 1.0}
_RFC: dict[str, Any] = {"color": style.INK, "linewidth": 1.2, "linestyle": (0, (4, 2))}


@dataclass(frozen=True)
class Point:
    """Instant ACKs for a CDN at a vantage point: quartiles in us, and how many exceed the first PTO."""

    cdn: str
    vantage: str
    probes: int
    rtt_us: tuple[float, float, float]
    delta_us: tuple[float, float, float]
    spurious_paper: int
    spurious_rfc: int

    @property
    def improvements(self) -> tuple[float, float, float]:
        """3 delta / RTT at the quartiles of delta and the median RTT."""
        low, median, high = (rfc9002.paper_improvement(self.rtt_us[1], delta) for delta in self.delta_us)
        return low, median, high


@dataclass(frozen=True)
class Points(PartWithFigures):
    """All points in a run, and the query with its answer."""

    points: list[Point]
    answer: QueryAnswer

    def figures(self, looks: Mapping[str, style.Look]) -> Iterator[FigurePlan]:
        """Yield the figure, which has curves even without a point."""
        yield FigurePlan(
            "first-pto-gain",
            partial(draw, self.points, looks),
            self.answer.rows,
            "How much earlier the first probe timeout expires",
            "Figure 4",
            describe(self.points),
            {"points": self.answer},
        )


def collect(store: Store, when: Mapping[str, str]) -> Points:
    """Collect a point for each CDN at each vantage point. Probes with an RTT of 0 us are excluded.

    `when`: run, first and last day.
    """
    answer = ask(store, "figure4", **when)
    points = [
        Point(**{**row, "rtt_us": tuple(row["rtt_us"]), "delta_us": tuple(row["delta_us"])})
        for row in answer.rows
    ]
    return Points(points, answer)


def draw(
    points: Sequence[Point],
    looks: Mapping[str, style.Look],
    size: style.Size,
) -> Figure:
    """Draw curves and points."""
    with style.drawing():
        height = 430 if size.narrow else 440
        figure = style.canvas(size, height)
        axes = figure.subplots()
        shown = [point for point in points if point.cdn in looks]
        rtts = [rtt / 1000 for point in shown for rtt in point.rtt_us]
        low, high = min(0.1, *(rtts or [0.1])), max(300.0, *(rtts or [0.1]))
        axes.set(xscale="log", yscale="log", xlim=(low, high), ylim=(_LEAST, _MOST))
        _spurious(axes, low, high)
        _curves(axes, low, high)
        for cdn, group in groupby(shown, key=lambda point: point.cdn):
            _mark(axes, sorted(group, key=lambda point: point.rtt_us[1]), looks[cdn])
        ticks = [10.0**n for n in range(-3, 5) if low <= 10.0**n <= high]
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.set_yticks([0.1, 1, 10], ["0.1", "1", "10"])
        axes.set_xlabel("RTT between client and frontend [ms]")
        axes.set_ylabel("First PTO shorter by [RTT]")
        names = [cdn for cdn in looks if any(point.cdn == cdn for point in shown)]
        keys = [
            Line2D([], [], label="3 Δ / RTT", **_PAPER),
            Line2D([], [], label="by RFC 9002", **_RFC),
        ]
        keys += [
            Line2D(
                [], [], label=style.name(cdn), color=looks[cdn].colour, marker=looks[cdn].marker, linestyle=""
            )
            for cdn in names
        ]
        figure.legend(handles=keys, loc="outside upper left", ncols=2 if size.narrow else 5, handlelength=1.8)
        return figure


def _curves(axes: Axes, low: float, high: float) -> None:
    """Draw 3 delta / RTT for each delta, and the curve of RFC 9002 where it differs, below 0.5 ms."""
    rtts = np.geomspace(low, high, 60)
    short = np.geomspace(low, 0.5, 20)
    for delta in DELTAS_MS:
        axes.plot(rtts, 3 * delta / rtts, **_PAPER)
        axes.plot(short, [rfc9002.improvement(rtt * 1000, delta * 1000) for rtt in short], **_RFC)
        top = 3 * delta / _MOST
        if top > low * 1.2:
            axes.text(top, _MOST * 1.05, f"Δ {delta}", fontsize=10.5, ha="center", va="bottom")
        else:
            at = 3 * delta / (_LEAST * 1.5)
            axes.text(at, _LEAST * 1.6, f"Δ {delta} ms", fontsize=10.5, ha="left", va="bottom")


def _spurious(axes: Axes, low: float, high: float) -> None:
    """Shade where the PTO expires before the ServerHello (3 RTT in the paper); dash the RFC's limit."""
    axes.axhspan(rfc9002.PAPER_SPURIOUS, _MOST, color="#f6e3d7", linewidth=0)
    rtts = np.geomspace(low, high, 200)
    limit = [rfc9002.spurious_improvement(rtt * 1000) for rtt in rtts]
    axes.plot(rtts, limit, **_RFC)
    axes.text(high / 1.15, _MOST / 1.25, "spurious retransmissions", ha="right", va="top", fontsize=11,
              color="#8a3b00", fontweight="bold")  # fmt: skip


def _mark(axes: Axes, points: Sequence[Point], look: style.Look) -> None:
    """Draw a CDN's points, one per vantage point, with quartiles."""
    xs = [point.rtt_us[1] / 1000 for point in points]
    ys = [point.improvements[1] for point in points]
    axes.plot(xs, ys, color=look.colour, linewidth=0.8, alpha=0.6)
    for point, x, y in zip(points, xs, ys, strict=True):
        quarter, _, three_quarters = point.improvements
        axes.plot([x, x], [quarter, three_quarters], color=look.colour, linewidth=1.4)
        axes.plot([point.rtt_us[0] / 1000, point.rtt_us[2] / 1000], [y, y], color=look.colour, linewidth=1.4)
    edge: dict[str, Any] = {"markeredgecolor": "white", "markeredgewidth": 0.7}
    axes.plot(xs, ys, color=look.colour, marker=look.marker, markersize=7, linestyle="", **edge)


def describe(found: Sequence[Point]) -> str:
    """Return the text alternative: the point of each CDN."""
    text = "; ".join(
        f"{point.cdn} from {point.vantage}: RTT {wording.ms(point.rtt_us[1])} ms, shorter by "
        f"{point.improvements[1]:.1f} RTT"
        for point in found
    )
    curves = "Curves of 3 delta / RTT fall as the RTT grows; above 9 RTT retransmissions are spurious."
    return wording.plain_long(f"{curves} {text or 'No CDN sent an instant ACK'}.")
