"""How servers pace a long response: gaps and trains as sent by the server, drops and goodput (paper 001)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from reports.numbers.compared import ComparisonPanel, ComparisonSeries, Where, series
from reports.tables.columns import PrintedColumn
from testbed.measures import Measure, Results
from testbed.measures.sending.pacing_cells import Paced, PacedResult, Pacing, cells, is_of
from testbed.measures.sending.pacing_checks import checks
from testbed.summary import SummaryPage, number, page
from testbed.trials.trial_row import Row


def summary(experiment: Pacing, lines: Sequence[Paced]) -> SummaryPage:
    """Return the summary of cells."""
    completed = [line for line in lines if line.done]

    def published(value: Callable[[PacedResult], float | None], digits: int) -> list[str]:
        return [number(value(line.published) if line.published else None, digits) for line in completed]

    columns = [
        PrintedColumn("server\n", [line.server for line in completed], right=False),
        PrintedColumn("control\n", [line.congestion_control or "-" for line in completed], right=False),
        PrintedColumn("qdisc\n", [line.qdisc for line in completed], right=False),
        PrintedColumn("GSO\n", [line.buffers for line in completed], right=False),
        PrintedColumn("dropped\n", [_spread(line.dropped, line.dropped_sd, 0) for line in completed]),
        PrintedColumn("publ.\n", published(lambda line: line.dropped, 0)),
        PrintedColumn(
            "goodput\nMbit/s", [_spread(line.goodput_mbit, line.goodput_sd_mbit, 2) for line in completed]
        ),
        PrintedColumn("publ.\n", published(lambda line: line.goodput_mbit, 2)),
        PrintedColumn("<= 0.1 ms\n%", [number(line.below_percent, 1) for line in completed]),
        PrintedColumn("publ.\n", published(lambda line: line.below_percent, 1)),
        PrintedColumn("alone\n%", [number(line.alone_percent, 1) for line in completed]),
        PrintedColumn("publ.\n", published(lambda line: line.alone_percent, 1)),
        PrintedColumn("<= 5\n%", [number(line.le5_percent, 1) for line in completed]),
        PrintedColumn("publ.\n", published(lambda line: line.le5_percent, 1)),
        PrintedColumn("gap p50\nus", [number(line.gap_p50_us, 0) for line in completed]),
        PrintedColumn("publ.\n", published(lambda line: line.gap_p50_us, 0)),
        PrintedColumn("longest\ntrain", [number(line.longest_train, 0) for line in completed]),
        PrintedColumn("trials\ndone", [f"{line.done}/{line.trials}" for line in completed]),
    ]
    legend = (
        "Dropped by the queue and goodput: mean and standard deviation; others: medians. Gaps and trains\n"
        "are as sent by the server: gaps within a train are below 0.1 ms; alone: trains of one packet.\n"
    )
    missing = [line.cell for line in lines if not line.done]
    further = list(_without_cell(experiment))
    return page(experiment, columns, legend, checks(experiment, lines), missing, len(lines), further=further)


def panels(lines: Sequence[Paced]) -> list[ComparisonPanel]:
    """Return the figure: ours and the published values by server."""
    plots: tuple[tuple[str, str, str], ...] = (
        ("alone_percent", "Packets alone", "Share [%]"),
        ("below_percent", "Gaps of 0.1 ms or less", "Share [%]"),
        ("goodput_mbit", "Goodput", "Rate [Mbit/s]"),
        ("dropped", "Dropped by the queue", "Packets"),
    )
    figure = []
    for name, title, axis in plots:
        dots = series("server", [(_server(line), getattr(line, name)) for line in lines])
        published_points: list[tuple[Where, float | None]] = [
            (_server(line), getattr(line.published, name) if line.published else None) for line in lines
        ]
        figure.append(ComparisonPanel(title, axis, dots + series("server", published_points, published=True)))
    return [*figure, *_distributions(lines)] if lines else []


def _distributions(lines: Sequence[Paced]) -> Iterator[ComparisonPanel]:
    """Yield distributions by server: ours as lines, the published shares as points (Figures 2 to 6)."""
    for server in dict.fromkeys(line.server for line in lines if line.distribution):
        group = [line for line in lines if line.server == server]
        gaps: list[ComparisonSeries] = []
        trains: list[ComparisonSeries] = []
        for line in group:
            name, published_result = _server(line).removeprefix(f"{server} ") or "own control", line.published
            if line.distribution is not None:
                gaps += series(name, line.distribution.gaps_drawn())
                trains += series(name, line.distribution.trains_drawn())
            if line.distribution is not None and published_result is not None:
                gaps += series(name, [(0.1, published_result.below_percent)], published=True)
                points = [(1.0, published_result.alone_percent), (5.0, published_result.le5_percent)]
                trains += series(name, points, published=True)
        yield ComparisonPanel(f"{server}: gaps up to", "Share of the gaps [%]", tuple(gaps), "Gap [ms]")
        axis = "Share of the packets [%]"
        yield ComparisonPanel(f"{server}: trains up to", axis, tuple(trains), "Length of the train [packets]")


def _without_cell(experiment: Pacing) -> Iterator[str]:
    """Yield a sentence for each published result without a cell of the same conditions."""
    cells = experiment.cells()
    for result in experiment.paced:
        if any(is_of(result, cell) for cell in cells):
            continue
        buffers = "with paced GSO" if result.gso_paced else "with GSO" if result.gso else "without GSO"
        about = [result.server, result.congestion_control or "own control", f"qdisc {result.qdisc}", buffers]
        numbers = (
            ("{} dropped", result.dropped, 0),
            ("{} Mbit/s", result.goodput_mbit, 2),
            ("{} % of gaps up to 0.1 ms", result.below_percent, 1),
            ("{} % alone", result.alone_percent, 1),
            ("{} % in trains of five at most", result.le5_percent, 1),
        )
        given = [text.format(number(value, digits)) for text, value, digits in numbers if value is not None]
        changed = [f"changed ({result.changed})"] if result.changed else []
        yield f"Published, without a cell here: {', '.join(about + changed)}: {', '.join(given)}."


def _spread(value: float | None, deviation: float | None, digits: int) -> str:
    return "-" if value is None or deviation is None else f"{value:.{digits}f} ± {deviation:.{digits}f}"


def _server(line: Paced) -> str:
    control = line.congestion_control or ""
    gso = {"off": "", "on": "GSO", "paced": "paced GSO"}[line.buffers]
    qdisc = "" if line.qdisc == "none" else line.qdisc
    return " ".join(part for part in (line.server, control, qdisc, gso) if part)


def results(experiment: Pacing, folder: Path, rows: Sequence[Row]) -> Results:
    """Return a line for each cell."""
    lines = cells(experiment, folder, rows)
    return Results(lines, lambda: summary(experiment, lines), lambda: panels(lines))


MEASURE = Measure(Pacing, results)
