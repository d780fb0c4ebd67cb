"""How servers pace a long response: gaps and trains as sent by the server, drops and goodput (paper 001)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from reports.tables.columns import PrintedColumn
from testbed.measures import Measure, Results
from testbed.measures.sending.pacing_cells import Paced, PacedResult, Pacing, cells, is_of
from testbed.measures.sending.pacing_checks import checks
from testbed.measures.sending.pacing_panels import panels
from testbed.summary import SummaryPage, number, page
from testbed.trials.trial_row import TrialRow


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
        yield f"Published, without a cell here: {', '.join(about)}: {', '.join(given)}."


def _spread(value: float | None, deviation: float | None, digits: int) -> str:
    return "-" if value is None or deviation is None else f"{value:.{digits}f} ± {deviation:.{digits}f}"


def results(experiment: Pacing, folder: Path, rows: Sequence[TrialRow]) -> Results:
    """Return a line for each cell."""
    lines = cells(experiment, folder, rows)
    return Results(lines, lambda: summary(experiment, lines), lambda: panels(lines))


MEASURE = Measure(Pacing, results)
