"""How precisely a server's datagrams leave at their launch times, and its congestion window (paper 001).

The server's log has the launch time and authentication tag of each datagram. The tag joins the log with the
capture at the start of the link. It replaces the packet number, because tags are unique in a connection.
(The first flights of two connections can be identical byte for byte.)
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import pstdev
from typing import Any

from pydantic import Field

from firstflight.errors import InputError
from reports.numbers.compared import ComparisonPanel, ComparisonSeries, series
from reports.tables.columns import PrintedColumn
from testbed.experiment.cell import Cell
from testbed.experiment.experiment import Experiment
from testbed.experiment.path_part import Qdisc
from testbed.experiment.published import OfPaper
from testbed.measures import Measure, Results
from testbed.measures.sending.quiche_checks import CHANGED
from testbed.measures.sending.windows import CongestionWindow, reductions, rolling_ns
from testbed.summary import Check, SummaryPage, number, page
from testbed.trials.captures import lateness
from testbed.trials.captures.block_files import SENDER_LOG, SENT, TRIALS
from testbed.trials.cell_rows import by_cell, done, median_of
from testbed.trials.trial_row import TrialRow, by_repetition, is_of

TAG = slice(-16, None)
ORDER = ("fq", "etf", "none")
"""Queueing disciplines by precision, as published."""


class Launched(OfPaper):
    """A server's published launch times."""

    server: str = Field(description="The server.")
    qdisc: Qdisc = Field(description="Its queueing discipline.")
    precision_ms: float = Field(description="Standard deviation of how late its datagrams left.")


class LaunchTimes(Experiment):
    """How precisely a server's datagrams leave at their launch times (paper 001)."""

    launched: tuple[Launched, ...] = Field(default=(), description="Published values.")


@dataclass(frozen=True)
class Launches:
    """A cell. Numbers are medians over completed trials; null without any.

    `datagrams`: the datagrams with a known launch time and capture time. `late_p50_us`: the median lateness;
    `precision_ms`: its standard deviation, of the population. `reductions`: window reductions; `rollbacks`:
    reductions after which the window jumped back to its previous size. `rolling_s`: the longest time in which
    every rollback restored the same size. `windows`: the windows of the first trial, in seconds and bytes.
    """

    cell: str
    server: str
    server_version: str | None
    congestion_control: str | None
    qdisc: str
    trials: int
    done: int
    datagrams: float | None
    late_p50_us: float | None
    precision_ms: float | None
    published_precision_ms: float | None
    reductions: float | None
    rollbacks: float | None
    rolling_s: float | None
    windows: tuple[tuple[float, int], ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the columns as a dictionary."""
        return asdict(self)


def cells(experiment: LaunchTimes, folder: Path, rows: Sequence[TrialRow]) -> list[Launches]:
    """Return a line for each cell of `rows`; logs and captures are in `folder`.

    InputError if these were not kept, or a row belongs to no cell of the experiment.
    """
    return [_launches(experiment, cell, cell_rows, folder) for cell, cell_rows in by_cell(experiment, rows)]


def late_ns(launches: Mapping[str, int], left: Iterable[tuple[int, bytes]]) -> list[int]:
    """Return the delay from its launch time to its departure for each datagram, in ns.

    `launches`: launch time by tag, in hex digits; `left`: times and tags from a capture.
    """
    return [time_ns - launches[tag.hex()] for time_ns, tag in left if tag.hex() in launches]


def summary(experiment: LaunchTimes, lines: Sequence[Launches]) -> SummaryPage:
    """Return the summary of cells."""
    completed = [line for line in lines if line.done]
    columns = [
        PrintedColumn("server\n", [line.server for line in completed], right=False),
        PrintedColumn("control\n", [line.congestion_control or "-" for line in completed], right=False),
        PrintedColumn("qdisc\n", [line.qdisc for line in completed], right=False),
        PrintedColumn("datagrams\n", [number(line.datagrams, 0) for line in completed]),
        PrintedColumn("late p50\nus", [number(line.late_p50_us, 0) for line in completed]),
        PrintedColumn("precision\nms", [number(line.precision_ms, 3) for line in completed]),
        PrintedColumn("publ.\n", [number(line.published_precision_ms, 2) for line in completed]),
        PrintedColumn("window\nreduced", [number(line.reductions, 0) for line in completed]),
        PrintedColumn("\nrolled back", [number(line.rollbacks, 0) for line in completed]),
        PrintedColumn("rolling\ns", [number(line.rolling_s, 2) for line in completed]),
        PrintedColumn("trials\ndone", [f"{line.done}/{line.trials}" for line in completed]),
    ]
    legend = (
        "Medians. Late: when a datagram left the server, minus its launch time in the server's log;\n"
        "precision: the standard deviation of this. Rolled back: the window returned in one step to its\n"
        "size before a reduction. Rolling: the longest time in which all rollbacks restored one size.\n"
    )
    missing = [line.cell for line in lines if not line.done]
    return page(experiment, columns, legend, list(_checks(completed)), missing, len(lines))


def _checks(lines: Sequence[Launches]) -> Iterator[Check]:
    for server, control in dict.fromkeys((line.server, line.congestion_control) for line in lines):
        known = {
            line.qdisc: line.precision_ms
            for line in lines
            if (line.server, line.congestion_control) == (server, control) and line.precision_ms is not None
        }
        order = [known[qdisc] for qdisc in ORDER if qdisc in known]
        if len(order) > 1:
            names = [qdisc for qdisc in ORDER if qdisc in known]
            values = ", ".join(f"{qdisc} {known[qdisc]:.3f} ms" for qdisc in names)
            yield Check(
                f"{server}, {control}",
                f"precision in the published order: {' < '.join(names)}",
                values,
                all(smaller < other for smaller, other in itertools.pairwise(order)),
            )
    for line in lines:
        if line.congestion_control == "cubic" and line.rollbacks is not None:
            changed = line.server in CHANGED
            yield Check(
                f"{line.server}, cubic, qdisc {line.qdisc}",
                f"{'no reduction' if changed else 'several reductions'} of the window "
                f"{'is' if changed else 'are'} rolled back",
                f"{line.rollbacks:.0f} of {line.reductions:.0f}",
                line.rollbacks == 0 if changed else line.rollbacks > 1,
            )


def _launches(experiment: LaunchTimes, cell: Cell, rows: Sequence[TrialRow], folder: Path) -> Launches:
    ended = done(rows)
    blocks: dict[str | None, list[TrialRow]] = {}
    for row in ended:
        blocks.setdefault(row["capture_file"], []).append(row)
    logs = [logged for block_rows in blocks.values() for logged in _of_block(folder, block_rows)]
    late_launches = [lateness_ns for lateness_ns, _ in logs if lateness_ns]
    windows = [trial_windows for _, trial_windows in logs if trial_windows]
    back = [
        [reduction[1] is not None for reduction in reductions(trial_windows)] for trial_windows in windows
    ]
    first = windows[0] if windows else []
    return Launches(
        cell=cell.name,
        server=cell.server,
        server_version=ended[0]["server_version"] if ended else None,
        congestion_control=cell.congestion_control,
        qdisc=cell.qdisc,
        trials=len(rows),
        done=len(ended),
        datagrams=median_of(late_launches, len),
        late_p50_us=median_of(late_launches, lambda lateness_ns: (median_of(lateness_ns, float) or 0) / 1e3),
        precision_ms=median_of(late_launches, lambda lateness_ns: pstdev(lateness_ns) / 1e6),
        published_precision_ms=next(
            (launched.precision_ms for launched in experiment.launched if _is_of(launched, cell)), None
        ),
        reductions=median_of(back, len),
        rollbacks=median_of(back, sum),
        rolling_s=median_of(windows, lambda trial_windows: rolling_ns(trial_windows) / 1e9),
        windows=tuple(((window.time_ns - first[0].time_ns) / 1e9, window.size) for window in first),
    )


def _is_of(published: Launched, cell: Cell) -> bool:
    return (published.server, published.qdisc) == (cell.server, cell.qdisc)


def _of_block(folder: Path, rows: Sequence[TrialRow]) -> Iterator[tuple[list[int], list[CongestionWindow]]]:
    """Yield, for each trial in a block, how late its datagrams left in ns, and its windows.

    InputError if there is no log or capture.
    """
    row = rows[0]
    block = folder / Path(row["capture_file"] or "").parent
    log, sent = block / SENDER_LOG, block / SENT
    if row["capture_file"] is None or not (log.is_file() and sent.is_file()):
        raise InputError(
            f"{folder}: log and capture of cell {row['cell']} were not kept, and this measure needs them"
        )
    # A killed server may have left an incomplete line.
    complete = log.read_text(encoding="utf-8").rpartition("\n")[0]
    lines = [json.loads(line) for line in complete.splitlines()]
    sent_datagrams = list(lateness.datagrams(sent, TAG))
    trials = by_repetition(block / TRIALS)
    for trial in (trials[row["repetition"]] for row in rows):
        entries = [entry for entry in lines if is_of(entry["time_ns"], trial)]
        launches = {entry["tag"]: entry["time_ns"] for entry in entries if "tag" in entry}
        windows = [
            CongestionWindow(entry["time_ns"], entry["window_bytes"], entry["lost"])
            for entry in entries
            if "window_bytes" in entry
        ]
        yield (
            late_ns(launches, (datagram for datagram in sent_datagrams if is_of(datagram[0], trial))),
            windows,
        )


def panels(lines: Sequence[Launches]) -> list[ComparisonPanel]:
    """Return the figure: precision by qdisc, and the window over time of each cell with CUBIC."""
    dots: tuple[ComparisonSeries, ...] = ()
    for server, control in dict.fromkeys((line.server, line.congestion_control) for line in lines):
        group = [line for line in lines if (line.server, line.congestion_control) == (server, control)]
        dots += series(f"{server} {control}", [(line.qdisc, line.precision_ms) for line in group])
    # Published values depend on the qdisc, not on the congestion control.
    published_points = list(dict.fromkeys((line.qdisc, line.published_precision_ms) for line in lines))
    dots += series("server", published_points, published=True)
    figure = [ComparisonPanel("Launch times", "Standard deviation [ms]", dots)]
    for line in lines:
        if line.congestion_control == "cubic":
            curve = series("window", [(at_s, size / 1000) for at_s, size in line.windows])
            title = f"{line.server} CUBIC, qdisc {line.qdisc}"
            figure.append(ComparisonPanel(title, "Window [kB]", curve, "Time [s]"))
    return figure if lines else []


def results(experiment: LaunchTimes, folder: Path, rows: Sequence[TrialRow]) -> Results:
    """Return a line for each cell, read from logs and captures in `folder`."""
    lines = cells(experiment, folder, rows)
    return Results(lines, lambda: summary(experiment, lines), lambda: panels(lines))


MEASURE = Measure(LaunchTimes, results)
