"""Figures 8 and 14 of the paper: the delay from ACK to ServerHello, at one vantage point or at all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from reports import published_values, wording
from reports.figures import cdf, labels, style
from reports.figures.plan import FigurePlan, PartWithFigures
from reports.question import QueryAnswer, ask
from store import Store

X_LABEL = "ServerHello after ACK [ms]"
Y_LABEL = "Probes [%]"


@dataclass(frozen=True)
class DelayPanel:
    """One vantage point: the curves of CDNs that send instant ACKs there, and the CDNs that never do."""

    title: str
    curves: list[cdf.Curve]
    waiting: tuple[str, ...]


@dataclass(frozen=True)
class Delays(PartWithFigures):
    """A figure's panels, and the queries for curves and numbers with their answers.

    `where`: the vantage points, in the title. `source`: the figure in the paper.
    """

    name: str
    where: str
    source: str
    panels: list[DelayPanel]
    curves: QueryAnswer
    numbers: QueryAnswer

    def figures(self, looks: Mapping[str, style.Look]) -> Iterator[FigurePlan]:
        """Yield the figure, with the paper's medians unless they are hidden."""
        if any(panel.curves for panel in self.panels):
            published_ms = published_values.imc2024("delay", "ack_to_sh_ms")
            yield FigurePlan(
                self.name,
                partial(draw, self.panels, looks, published_ms=published_ms),
                self.curves.rows,
                f"Delay from ACK to ServerHello, {self.where}",
                self.source,
                describe(self.panels),
                {"curves": self.curves, "numbers": self.numbers},
            )


def at_vantage(store: Store, run: str, vantage: str, day: str, title: str) -> Delays:
    """Collect Figure 8: probes of `day` (UTC, YYYY-MM-DD) from `vantage`."""
    values = {"run": run, "vantage": vantage, "day": day}
    curves, numbers = ask(store, "figure8", **values), ask(store, "figure8_numbers", **values)
    iack = {row["cdn"]: row["iack"] for row in numbers.rows}
    panels = [_panel(title, cdf.curves(curves.rows, "delay_us"), iack)]
    return Delays("delay-one-vantage", "one vantage point", "Figure 8", panels, curves, numbers)


def all_vantages(store: Store, when: Mapping[str, str], cities: Mapping[str, str]) -> Delays:
    """Collect Figure 14: probes of all days, a panel per vantage point; `cities`: their names.

    `when`: run, first and last day.
    """
    curves, numbers = ask(store, "figure14", **when), ask(store, "figure14_numbers", **when)
    panels = []
    for vantage, rows in groupby(curves.rows, key=lambda row: str(row["vantage"])):
        iack = {row["cdn"]: row["iack"] for row in numbers.rows if row["vantage"] == vantage}
        panels.append(_panel(cities.get(vantage, vantage), cdf.curves(rows, "delay_us"), iack))
    return Delays("delay-all-vantages", "all vantage points", "Figure 14", panels, curves, numbers)


def _panel(title: str, curves: Sequence[cdf.Curve], iack: Mapping[str, int]) -> DelayPanel:
    sending = [curve for curve in curves if iack.get(curve.label)]
    return DelayPanel(title, sending, tuple(curve.label for curve in curves if curve not in sending))


def draw(
    panels: Sequence[DelayPanel],
    looks: Mapping[str, style.Look],
    size: style.Size,
    published_ms: Mapping[str, float] | None = None,
) -> Figure:
    """Draw the panels; a single panel has labels next to its curves, several share a legend.

    `published_ms`: medians of instant ACKs by CDN, as triangles on the axis.
    """
    with style.drawing():
        columns = 1 if size.narrow or len(panels) == 1 else 2
        rows = -(-len(panels) // columns)
        single = len(panels) == 1
        height = 325 if single else 215 * rows + (70 if size.narrow else 40)
        figure = style.canvas(size, height)
        grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
        drawn = [curve for panel in panels for curve in panel.curves if curve.label in looks]
        cdf.delay_axis(grid[0, 0], drawn)
        for number, axes in enumerate(grid.flat):
            if number >= len(panels):
                axes.set_visible(False)
                continue
            _draw_panel(axes, panels[number], looks, titled=not single)
            for curve in panels[number].curves:
                median_ms = (published_ms or {}).get(curve.label)
                if median_ms is not None and curve.label in looks:
                    position = cdf.position(1000 * median_ms)
                    axes.plot(position, 0, "^", markersize=7, color=looks[curve.label].colour, clip_on=False)
            below = number + columns >= len(panels)
            axes.set_xlabel(X_LABEL if below else "")
            axes.tick_params(labelbottom=below)
            cdf.share_axis(axes, Y_LABEL if number % columns == 0 else None)
        names = [cdn for cdn in looks if any(curve.label == cdn for curve in drawn)]
        if not single or _label(grid[0, 0], panels[0], looks):
            keys = [Line2D([], [], label=style.name(cdn), **looks[cdn].line) for cdn in names]
            figure.legend(handles=keys, loc="outside upper left", ncols=3 if size.narrow else 6)
        return figure


def _draw_panel(axes: Axes, panel: DelayPanel, looks: Mapping[str, style.Look], *, titled: bool) -> None:
    for curve in panel.curves:
        if curve.label in looks:
            cdf.draw(axes, curve, looks[curve.label])
    if titled:
        axes.set_title(style.name(panel.title))


def _label(axes: Axes, panel: DelayPanel, looks: Mapping[str, style.Look]) -> list[str]:
    """Write the names next to the curves; return the names for which there was no space."""
    lines = [
        labels.LabelledLine(style.name(curve.label), *cdf.corners(curve), looks[curve.label])
        for curve in panel.curves
        if curve.label in looks
    ]
    return labels.label_lines(axes, lines)


def describe(panels: Sequence[DelayPanel]) -> str:
    """Return the text alternative: the share at 0 and the median of each curve."""
    parts = []
    for panel in panels:
        curves = "; ".join(
            f"{curve.label}: {wording.percent(curve.at_zero)} % at 0, half of the probes within "
            f"{wording.ms(curve.half_us)} ms"
            for curve in panel.curves
        )
        parts.append(f"{panel.title}: {curves or 'no CDN sends instant ACKs'}.")
    return wording.plain_long(" ".join(parts))
