"""Figure 2 of the paper: the PTO after each RTT sample, with an instant ACK and without."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from reports import wording
from reports.figures import style
from reports.figures.first_pto import Point, Points
from reports.figures.plan import FigurePlan, PartWithFigures
from reports.numbers import rfc9002
from reports.question import QueryAnswer

SAMPLES = 30
PAPER_DELTA_MS = 4.0
"""How much earlier the instant ACK arrives in the paper's Figure 2."""
EXAMPLE_RTT_MS = 9.0
"""The RTT of the paper's comparison of implementations; its Figure 2 gives no RTT."""
MEASURED = 3
"""Number of measured CDNs that are drawn in addition to the example."""

_WITH = style.Look("#0072B2", "-", "o")
_WITHOUT = style.Look("#D55E00", (0, (5, 2)), "s")


@dataclass(frozen=True)
class PtoCase:
    """An RTT and a delta, and the PTO after each sample, all in ms."""

    title: str
    rtt_ms: float
    delta_ms: float
    instant: list[float]
    waiting: list[float]


@dataclass(frozen=True)
class PtoCases(PartWithFigures):
    """The cases of Figure 2, and the query for their medians with its answer."""

    cases: list[PtoCase]
    medians: QueryAnswer

    def figures(self, looks: Mapping[str, style.Look]) -> Iterator[FigurePlan]:  # noqa: ARG002
        """Yield the figure, which always has the paper's example."""
        yield FigurePlan(
            "pto-samples",
            partial(draw, self.cases),
            rows(self.cases),
            "Probe timeout after each RTT sample",
            "Figure 2",
            describe(self.cases),
            {"medians": self.medians},
        )


def cases(measured: Points, vantage: str | None, city: str) -> PtoCases:
    """Return the paper's example, then the CDNs with most instant ACKs at `vantage`, at their medians."""
    return PtoCases(_cases(measured.points, vantage, city), measured.answer)


def _cases(points: Sequence[Point], vantage: str | None, city: str) -> list[PtoCase]:
    found = [_case("Example", EXAMPLE_RTT_MS, PAPER_DELTA_MS)]
    vantage_points = [point for point in points if point.vantage == vantage]
    for point in sorted(vantage_points, key=lambda point: (-point.probes, point.cdn))[:MEASURED]:
        rtt, delta = point.rtt_us[1] / 1000, point.delta_us[1] / 1000
        found.append(_case(f"{point.cdn}, {city}", rtt, delta))
    return found


def _case(title: str, rtt_ms: float, delta_ms: float) -> PtoCase:
    instant, waiting = rfc9002.evolution(rtt_ms * 1000, delta_ms * 1000, SAMPLES)
    return PtoCase(title, rtt_ms, delta_ms, [us / 1000 for us in instant], [us / 1000 for us in waiting])


def rows(found: Sequence[PtoCase]) -> list[dict[str, Any]]:
    """Return the cases as rows, one per sample."""
    return [
        {"case": case.title, "rtt_ms": case.rtt_ms, "delta_ms": case.delta_ms, "sample": number}
        | {"pto_iack_ms": round(instant, 6), "pto_wfc_ms": round(waiting, 6)}
        for case in found
        for number, (instant, waiting) in enumerate(zip(case.instant, case.waiting, strict=True), start=1)
    ]


def draw(drawn: Sequence[PtoCase], size: style.Size) -> Figure:
    """Draw a panel per case."""
    with style.drawing():
        columns = 1 if size.narrow or len(drawn) == 1 else 2
        rows = -(-len(drawn) // columns)
        height = 190 * rows + (60 if size.narrow else 50)
        figure = style.canvas(size, height)
        grid = figure.subplots(rows, columns, squeeze=False, sharex=True)
        numbers = range(1, SAMPLES + 1)
        for index, axes in enumerate(grid.flat):
            if index >= len(drawn):
                axes.set_visible(False)
                continue
            case = drawn[index]
            axes.axhline(case.rtt_ms, color=style.FAINT, linewidth=0.8)
            first = case.waiting[0]
            axes.text(SAMPLES, case.rtt_ms - 0.02 * first, "RTT", ha="right", va="top", fontsize=10.5,
                      color=style.FAINT)  # fmt: skip
            axes.plot(numbers, case.waiting, **_WITHOUT.line)
            axes.plot(numbers, case.instant, **_WITH.line)
            axes.plot([1, 1], [case.instant[0], first], color=style.INK, linewidth=1)
            gain = f"first PTO {first - case.instant[0]:.1f} ms shorter"
            axes.text(0.98, 0.93, gain, transform=axes.transAxes, ha="right", va="top")
            axes.set_title(f"{style.name(case.title)}: RTT {case.rtt_ms:.1f} ms, Δ {case.delta_ms:.1f} ms")
            axes.set_ylim(0, first * 1.08)
            axes.set_xlim(0, SAMPLES + 0.5)
            axes.set_xticks([1, 5, 10, 15, 20, 25, 30])
            if index % columns == 0:
                axes.set_ylabel("PTO [ms]")
            if index + columns >= len(drawn):
                axes.set_xlabel("RTT samples")
                axes.tick_params(labelbottom=True)
        figure.legend(
            handles=[
                Line2D([], [], label="instant ACK", **_WITH.line),
                Line2D([], [], label="wait for certificate", **_WITHOUT.line),
            ],
            loc="outside upper left",
            ncols=2,
        )
        return figure


def describe(found: Sequence[PtoCase]) -> str:
    """Return the text alternative: the first and the last PTO of each case."""
    return wording.plain_long(
        " ".join(
            f"{case.title}: with an instant ACK the PTO goes from {case.instant[0]:.1f} to "
            f"{case.instant[-1]:.1f} ms, without from {case.waiting[0]:.1f} to {case.waiting[-1]:.1f} ms."
            for case in found
        )
    )
