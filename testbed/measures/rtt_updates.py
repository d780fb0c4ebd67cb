"""RTT estimates in the clients' own logs, compared with the captures (paper 000, Figure 11)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pydantic import Field

from dissector.qlog import read
from firstflight.errors import InputError
from reports.numbers.compared import ComparisonPanel, series
from reports.tables.columns import PrintedColumn
from testbed.experiment.cell import Cell
from testbed.experiment.experiment import Experiment
from testbed.experiment.published import OfPaper
from testbed.measures import Measure, Results
from testbed.measures.estimates import variance
from testbed.measures.estimates.variance import Variance
from testbed.summary import Check, SummaryPage, number, page
from testbed.trials.captures import captured_packets
from testbed.trials.cell_rows import by_cell, done, median_ms, median_of
from testbed.trials.trial_row import DissectedRow, TrialRow

WITHIN = 0.15


class Updated(OfPaper):
    """Published counts from a client's own log."""

    client: str = Field(description="The client.")
    updates: int = Field(description="Updates of the RTT estimate.")
    new_acks: int = Field(description="ACKs of new packets.")


class RttUpdates(Experiment):
    """Updates of the RTT estimate in the clients' own logs (paper 000, Figure 11)."""

    updated: tuple[Updated, ...] = Field(default=(), description="Published counts.")


@dataclass(frozen=True)
class Log:
    """A trial's log: updates of smoothed RTT or variation, and the first probe timeout in us.

    `samples`, `rfc_pto_us`: RTT samples from the packets, and RFC 9002's probe timeout after the first one.
    `variance`: the updates by the formula of their variation.
    """

    updates: int
    pto_us: int
    samples: int
    rfc_pto_us: int | None
    variance: Variance = field(default_factory=Variance)


@dataclass(frozen=True)
class Logged:
    """A client. Numbers are medians over completed trials with a readable log; null without any.

    `logs`: the number of readable logs; `damaged`: why the others could not be read. `variance`: the formula
    of the variation that the most updates fit, and their share; `variance_updates`: the number of updates
    for which the formulas differ, over all logs.
    """

    client: str
    version: str | None
    server: str
    answering: str
    rtt_ms: float
    trials: int
    done: int
    logs: int
    updates: float | None
    samples: float | None
    pto_ms: float | None
    rfc_pto_ms: float | None
    published_updates: int | None
    published_new_acks: int | None
    damaged: str | None
    variance: str = "-"
    variance_updates: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Return the columns as a dictionary."""
        return asdict(self)


def clients(
    experiment: Experiment, folder: Path, rows: Sequence[TrialRow], published: Sequence[Updated] = ()
) -> list[Logged]:
    """Return a line for each cell of `rows`; logs and captures are in `folder`.

    InputError if a capture was not kept, or a row belongs to no cell of the experiment.
    """
    return [_logged(cell, cell_rows, folder, published) for cell, cell_rows in by_cell(experiment, rows)]


def summary(experiment: Experiment, lines: Sequence[Logged]) -> SummaryPage:
    """Return the summary of clients."""
    completed = [line for line in lines if line.done]
    columns = [
        PrintedColumn("client\n", [line.client for line in completed], right=False),
        PrintedColumn("version\n", [line.version or "-" for line in completed], right=False),
        PrintedColumn("server\n", [line.server for line in completed], right=False),
        PrintedColumn("RTT\nms", [f"{line.rtt_ms:g}" for line in completed]),
        PrintedColumn("updates\n", [number(line.updates, 0) for line in completed]),
        PrintedColumn("publ.\n", [number(line.published_updates, 0) for line in completed]),
        PrintedColumn("samples\n", [number(line.samples, 0) for line in completed]),
        PrintedColumn("published\nnew ACKs", [number(line.published_new_acks, 0) for line in completed]),
        PrintedColumn("first PTO\nlog", [number(line.pto_ms, 1) for line in completed]),
        PrintedColumn("\npackets", [number(line.rfc_pto_ms, 1) for line in completed]),
        PrintedColumn("vari-\nation", [line.variance for line in completed]),
        PrintedColumn("logs\n", [f"{line.logs}/{line.trials}" for line in completed]),
    ]
    legend = (
        "Medians. Updates: entries of the client's log with a smoothed RTT or variation that differs from\n"
        "the previous entry. Samples: RTT samples of RFC 9002, 5.1, from the packets of the capture.\n"
        "First PTO: ms after the first sample, from the log's estimate, and from the packets. Variation:\n"
        "from the sample's distance to the smoothed RTT before its update (RFC 9002, A.7), after it (RFC\n"
        "9002, 5.3), or to the smallest RTT; with the share of updates that fit.\n"
    )
    missing = [line.client for line in lines if not line.done]
    further = [f"{line.client}: {line.damaged}." for line in completed if line.damaged]
    return page(experiment, columns, legend, checks(completed), missing, len(lines), further=further)


def checks(lines: Sequence[Logged]) -> list[Check]:
    """Return whether clients have as many updates as the paper's, and at most as many as samples."""
    verdicts = []
    for line in lines:
        if line.updates is None or line.samples is None:
            continue
        verdicts.append(
            Check(
                line.client,
                "it updates its estimate as often as it has samples, or less often",
                f"{line.updates:.0f} updates, {line.samples:.0f} samples",
                line.updates <= line.samples,
            )
        )
        if line.published_updates is not None:
            off = line.updates / line.published_updates - 1
            verdicts.append(
                Check(
                    line.client,
                    f"as many updates as published, within {100 * WITHIN:g} %",
                    f"{line.updates:.0f}, published {line.published_updates} ({100 * off:+.0f} %)",
                    abs(off) <= WITHIN,
                )
            )
    return verdicts


def log_of(path: Path, connections: Mapping[str, DissectedRow]) -> Log:
    """Return a log's content. `connections`: rows of quic_connection, by original destination connection ID.

    InputError: the log is unreadable, has no sample, or belongs to an unknown connection.
    """
    rows = list(read.metrics(path))
    if not rows:
        raise InputError(f"{path}: it has no RTT sample")
    connection = connections.get(rows[0]["odcid"] or "")
    if connection is None:
        raise InputError(f"{path}: it belongs to no connection of the capture")
    series = json.loads(connection["pto_series_us"] or "[]")
    return Log(
        updates=sum(row["updated"] for row in rows),
        pto_us=rows[0]["pto_us"],
        samples=connection["rtt_samples"] or 0,
        rfc_pto_us=series[0] if series else None,
        variance=variance.counted(rows),
    )


def _logged(cell: Cell, rows: Sequence[TrialRow], folder: Path, published: Sequence[Updated]) -> Logged:
    ended = done(rows)
    connections = {
        connection["odcid"]: connection for connection in captured_packets.summaries(folder, ended)
    }
    logs: list[Log] = []
    damaged: list[str] = []
    for row in ended:
        try:
            logs.append(log_of(_path(folder, row), connections))
        except InputError as error:
            # The path of the results does not matter here.
            damaged.append(str(error).replace(f"{folder}/", ""))
    fitting = sum((log.variance for log in logs), Variance())
    published_line = next((updated for updated in published if updated.client == cell.client), None)
    return Logged(
        client=cell.client,
        version=ended[0]["client_version"] if ended else None,
        server=cell.server,
        answering=cell.answering,
        rtt_ms=cell.rtt_ms,
        trials=len(rows),
        done=len(ended),
        logs=len(logs),
        updates=median_of(logs, lambda log: log.updates),
        samples=median_of(logs, lambda log: log.samples),
        pto_ms=median_ms(logs, lambda log: log.pto_us),
        rfc_pto_ms=median_ms(logs, lambda log: log.rfc_pto_us),
        published_updates=published_line.updates if published_line else None,
        published_new_acks=published_line.new_acks if published_line else None,
        variance=fitting.text(),
        variance_updates=fitting.updates,
        damaged="; ".join(damaged) or None,
    )


def _path(folder: Path, row: TrialRow) -> Path:
    """Return the client's log for a trial. InputError: it wrote none."""
    block = folder / Path(row["capture_file"]).parent
    logs = sorted(block.glob(f"client-{row['repetition']:04d}.*qlog"))
    if not logs:
        raise InputError(f"{block}: the client wrote no log in repetition {row['repetition']}")
    return logs[0]


def panels(lines: Sequence[Logged]) -> list[ComparisonPanel]:
    """Return the figure: updates and ACKs of new packets by client."""
    dots = series("updates", [(line.client, line.updates) for line in lines])
    dots += series("updates", [(line.client, line.published_updates) for line in lines], published=True)
    dots += series("new ACKs", [(line.client, line.samples) for line in lines])
    dots += series("new ACKs", [(line.client, line.published_new_acks) for line in lines], published=True)
    return (
        [ComparisonPanel("Of the RTT estimate", "Updates, and ACKs of something new", dots)] if lines else []
    )


def results(experiment: RttUpdates, folder: Path, rows: Sequence[TrialRow]) -> Results:
    """Return a line for each cell, read from logs and captures in `folder`."""
    lines = clients(experiment, folder, rows, experiment.updated)
    return Results(lines, lambda: summary(experiment, lines), lambda: panels(lines))


MEASURE = Measure(RttUpdates, results)
