"""The first RTT estimates of client and server, from the logs of both (qlog).

An instant ACK gives the client an RTT sample before the certificate arrives. The server gets its first sample
from the client's ACK of its flight, with either answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from dissector.qlog import read
from firstflight.errors import InputError
from reports.numbers.compared import ComparisonPanel, series
from reports.tables.columns import PrintedColumn
from testbed.experiment.cell import Cell
from testbed.experiment.experiment import Experiment
from testbed.measures import Measure, Results
from testbed.summary import SummaryPage, number, page
from testbed.trials.captures import captured_packets
from testbed.trials.cell_rows import by_cell, done, median_ms
from testbed.trials.trial_row import TrialRow

Side = Literal["client", "server"]


class ServerEstimate(Experiment):
    """The first RTT estimates of client and server, from the logs of both."""


@dataclass(frozen=True)
class Estimates:
    """A cell. Times in ms, medians over readable logs of completed trials; null without any.

    `client_rtt_ms`, `server_rtt_ms`: the smoothed RTT after the first sample, which is that sample;
    `client_pto_ms`, `server_pto_ms`: the probe timeout computed from it. `client_logs`, `server_logs`: the
    number of logs with a sample; `damaged`: why others could not be read.
    """

    client: str
    client_version: str | None
    server: str
    server_version: str | None
    answering: str
    rtt_ms: float
    certificate_delay_ms: float
    trials: int
    done: int
    client_logs: int
    server_logs: int
    client_rtt_ms: float | None
    server_rtt_ms: float | None
    client_pto_ms: float | None
    server_pto_ms: float | None
    damaged: str | None

    def as_dict(self) -> dict[str, Any]:
        """Return the columns as a dictionary."""
        return asdict(self)


def first_estimates(
    folders: Iterable[Path], side: Side, odcids: set[str]
) -> tuple[list[read.MetricsRow], list[str]]:
    """Return the first row of each log of a side that has a sample, and a sentence for each damaged log.

    `odcids`: the original destination connection IDs of the connections that count. A log names its
    connection, because a server may write it after the trial's end.
    """
    first, damaged = [], []
    for path in (path for folder in folders for path in sorted(folder.glob(f"{side}-*qlog"))):
        try:
            row = next(read.metrics(path), None)
        except InputError as error:
            damaged.append(str(error).replace(f"{path.parents[2]}/", ""))
            continue
        if row is not None and row["odcid"] in odcids:
            first.append(row)
    return first, damaged


def cells(experiment: Experiment, folder: Path, rows: Sequence[TrialRow]) -> list[Estimates]:
    """Return a line for each cell of `rows`; logs and captures are in `folder`.

    InputError if a capture was not kept, or a row belongs to no cell of the experiment.
    """
    return [_of_cell(cell, cell_rows, folder) for cell, cell_rows in by_cell(experiment, rows)]


def _of_cell(cell: Cell, rows: Sequence[TrialRow], folder: Path) -> Estimates:
    ended = done(rows)
    odcids = {connection["odcid"] for connection in captured_packets.summaries_of(folder, ended)}
    blocks = sorted({(folder / row["capture_file"]).parent for row in ended})
    client, damaged = first_estimates(blocks, "client", odcids)
    server, others = first_estimates(blocks, "server", odcids)
    return Estimates(
        client=cell.client,
        client_version=ended[0]["client_version"] if ended else None,
        server=cell.server,
        server_version=ended[0]["server_version"] if ended else None,
        answering=cell.answering,
        rtt_ms=cell.rtt_ms,
        certificate_delay_ms=cell.certificate_delay_ms,
        trials=len(rows),
        done=len(ended),
        client_logs=len(client),
        server_logs=len(server),
        client_rtt_ms=median_ms(client, lambda row: row["smoothed_rtt_us"]),
        server_rtt_ms=median_ms(server, lambda row: row["smoothed_rtt_us"]),
        client_pto_ms=median_ms(client, lambda row: row["pto_us"]),
        server_pto_ms=median_ms(server, lambda row: row["pto_us"]),
        damaged="; ".join([*damaged, *others]) or None,
    )


def summary(experiment: Experiment, lines: Sequence[Estimates]) -> SummaryPage:
    """Return the summary of cells."""
    completed = [line for line in lines if line.done]
    columns = [
        PrintedColumn("client\n", [line.client for line in completed], right=False),
        PrintedColumn("server\n", [line.server for line in completed], right=False),
        PrintedColumn("answer\n", [line.answering for line in completed], right=False),
        PrintedColumn("RTT\nms", [f"{line.rtt_ms:g}" for line in completed]),
        PrintedColumn("first RTT\nclient", [number(line.client_rtt_ms, 1) for line in completed]),
        PrintedColumn("\nserver", [number(line.server_rtt_ms, 1) for line in completed]),
        PrintedColumn("first PTO\nclient", [number(line.client_pto_ms, 1) for line in completed]),
        PrintedColumn("\nserver", [number(line.server_pto_ms, 1) for line in completed]),
        PrintedColumn("logs\nclient", [f"{line.client_logs}/{line.trials}" for line in completed]),
        PrintedColumn("\nserver", [f"{line.server_logs}/{line.trials}" for line in completed]),
    ]
    legend = (
        "Medians in ms, from the first entry with an RTT sample in the log of each side. First PTO:\n"
        "smoothed RTT plus four variations (at least 1 ms).\n"
    )
    missing = sorted({f"{line.client} with {line.server}" for line in lines if not line.done})
    of = len({(line.client, line.server) for line in lines})
    further = [f"{line.client} with {line.server}: {line.damaged}." for line in completed if line.damaged]
    return page(experiment, columns, legend, [], missing, of, further=further)


def panels(lines: Sequence[Estimates]) -> list[ComparisonPanel]:
    """Return the figure: the first probe timeout of both sides by cell."""
    named = [(f"{line.client}, {line.server}, {line.answering}", line) for line in lines]
    dots = series("client", [(name, line.client_pto_ms) for name, line in named])
    dots += series("server", [(name, line.server_pto_ms) for name, line in named])
    return [ComparisonPanel("From both logs", "First PTO [ms]", dots)] if lines else []


def results(experiment: ServerEstimate, folder: Path, rows: Sequence[TrialRow]) -> Results:
    """Return a line for each cell, read from logs and captures in `folder`."""
    lines = cells(experiment, folder, rows)
    return Results(lines, lambda: summary(experiment, lines), lambda: panels(lines))


MEASURE = Measure(ServerEstimate, results)
