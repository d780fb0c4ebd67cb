"""Figure 10 of the paper: a measured delay minus the ACK Delay that the server reports, in two readings.

`paper` is the published code's computation, from the ACK to the ServerHello. `physical` follows the paper's
text: from the Initial to the ACK, including the round trip. docs/definitions.md defines both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from reports import wording
from reports.figures import cdf, style
from reports.figures.plan import FigurePlan, PartWithFigures
from reports.question import QueryAnswer, ask
from store import Store

WAYS = {
    "paper": "ACK to ServerHello, minus ACK Delay [ms]",
    "physical": "Initial to ACK, minus ACK Delay [ms]",
}
MEASURED = {"paper": "Time from ACK to ServerHello", "physical": "Time from Initial to ACK"}
"""Way -> the measured quantity, for a title."""
OUTCOMES = {"coalesced": "ACK and ServerHello coalesced", "iack": "Instant ACK"}


@dataclass(frozen=True)
class Differences(PartWithFigures):
    """The curves of Figure 10 (`panels`: way -> outcome -> curves), and their queries with answers."""

    panels: dict[str, dict[str, list[cdf.Curve]]]
    curves: QueryAnswer
    numbers: QueryAnswer

    def figures(self, looks: Mapping[str, style.Look]) -> Iterator[FigurePlan]:
        """Yield a figure per way that has curves."""
        for way, panels in self.panels.items():
            if any(panels.values()):
                yield FigurePlan(
                    f"ack-delay-{way}",
                    partial(draw, panels, way, looks),
                    [row for row in self.curves.rows if row["way"] == way],
                    f"{MEASURED[way]} minus the reported ACK Delay",
                    "Figure 10",
                    describe(panels),
                    {"curves": self.curves, "numbers": self.numbers},
                )


def collect(store: Store, when: Mapping[str, str]) -> Differences:
    """Collect both readings over all vantage points and days; all probes weigh the same.

    `when`: run, first and last day.
    """
    curves, numbers = ask(store, "figure10", **when), ask(store, "figure10_numbers", **when)
    panels: dict[str, dict[str, list[cdf.Curve]]] = {
        way: {outcome: [] for outcome in OUTCOMES} for way in WAYS
    }
    for (way, outcome), rows in groupby(curves.rows, key=lambda row: (row["way"], row["outcome"])):
        panels[way][outcome] = cdf.curves(rows, "difference_us")
    return Differences(panels, curves, numbers)


def draw(
    panels: Mapping[str, list[cdf.Curve]],
    way: str,
    looks: Mapping[str, style.Look],
    size: style.Size,
) -> Figure:
    """Draw one reading: a panel for coalesced answers, one for instant ACKs."""
    with style.drawing():
        rows, columns = (2, 1) if size.narrow else (1, 2)
        height = 540 if size.narrow else 310
        figure = style.canvas(size, height)
        grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
        drawn = [curve for curves in panels.values() for curve in curves if curve.label in looks]
        cdf.delay_axis(grid[0, 0], drawn)
        for number, (axes, outcome) in enumerate(zip(grid.flat, OUTCOMES, strict=True)):
            axes.axvspan(-99, 0, color="#f4f0e6", linewidth=0)
            axes.axvline(0, color=style.FAINT, linewidth=0.8)
            for curve in panels.get(outcome, []):
                if curve.label in looks:
                    cdf.draw(axes, curve, looks[curve.label])
            axes.set_title(OUTCOMES[outcome])
            axes.set_xlabel("" if size.narrow and number == 0 else WAYS[way])
            axes.tick_params(labelbottom=not size.narrow or number == 1)
            cdf.share_axis(axes, "Probes [%]" if number % columns == 0 else None)
        names = [cdn for cdn in looks if any(curve.label == cdn for curve in drawn)]
        keys = [Line2D([], [], label=style.name(cdn), **looks[cdn].line) for cdn in names]
        if keys:
            figure.legend(handles=keys, loc="outside upper left", ncols=3 if size.narrow else 5)
        return figure


def describe(panels: Mapping[str, Sequence[cdf.Curve]]) -> str:
    """Return the text alternative: the median of each curve."""
    parts = []
    for outcome, curves in panels.items():
        text = "; ".join(
            f"{curve.label}: half of the probes at most {wording.ms(curve.half_us)} ms" for curve in curves
        )
        parts.append(f"{OUTCOMES[outcome]}: {text or 'no probes'}.")
    return wording.plain_long(" ".join(parts))
