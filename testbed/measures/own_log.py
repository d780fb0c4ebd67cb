"""RTT estimates in the clients' own logs, compared with the captures (paper 000, Figure 11)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dissector.qlog import read
from firstflight.errors import InputError
from reports.tables.columns import Column
from testbed.experiment.cell import Cell
from testbed.experiment.experiment import Experiment
from testbed.measures.page import Check, Page, number, page
from testbed.trials.captures import captured_packets
from testbed.trials.cell_rows import by_cell, done, median_ms, median_of
from testbed.trials.trial_row import Row

WITHIN = 0.15


@dataclass(frozen=True)
class Log:
    """A trial's log: updates of smoothed RTT or variation, the first probe timeout by the log, in us.

    `samples`, `rfc_pto_us`: RTT samples by the packets, and RFC 9002's probe timeout after the first.
    """

    updates: int
    pto_us: int
    samples: int
    rfc_pto_us: int | None


@dataclass(frozen=True)
class Logged:
    """A client. Numbers are medians over completed trials with a readable log; null without any.

    `logs`: the number of readable logs; `damaged`: why the others could not be read.
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

    def as_dict(self) -> dict[str, Any]:
        """Return the columns as a dictionary."""
        return asdict(self)


def clients(experiment: Experiment, folder: Path, rows: Sequence[Row]) -> list[Logged]:
    """Return a line for each cell that `rows` are of; logs and captures are in `folder`.

    InputError if a capture was not kept, or a row is of no cell of the experiment.
    """
    return [_logged(experiment, cell, own, folder) for cell, own in by_cell(experiment, rows)]


def summary(experiment: Experiment, found: Sequence[Logged]) -> Page:
    """Return the summary of clients."""
    here = [one for one in found if one.done]
    columns = [
        Column("client\n", [one.client for one in here], right=False),
        Column("version\n", [one.version or "-" for one in here], right=False),
        Column("server\n", [one.server for one in here], right=False),
        Column("RTT\nms", [f"{one.rtt_ms:g}" for one in here]),
        Column("updates\n", [number(one.updates, 0) for one in here]),
        Column("publ.\n", [number(one.published_updates, 0) for one in here]),
        Column("samples\n", [number(one.samples, 0) for one in here]),
        Column("published\nnew ACKs", [number(one.published_new_acks, 0) for one in here]),
        Column("first PTO\nlog", [number(one.pto_ms, 1) for one in here]),
        Column("\npackets", [number(one.rfc_pto_ms, 1) for one in here]),
        Column("logs\n", [f"{one.logs}/{one.trials}" for one in here]),
    ]
    legend = (
        "Medians. Updates: entries of the client's log with another smoothed RTT or variation than the\n"
        "entry before. Samples: RTT samples of RFC 9002, 5.1, by the packets of the capture.\n"
        "First PTO: ms after the first sample, by the log's estimate, and by the packets.\n"
    )
    missing = [one.client for one in found if not one.done]
    further = [f"{one.client}: {one.damaged}." for one in here if one.damaged]
    return page(experiment, columns, legend, checks(here), missing, len(found), further=further)


def checks(found: Sequence[Logged]) -> list[Check]:
    """Return whether clients update as often as the paper's, and never more often than they have samples."""
    made = []
    for one in found:
        if one.updates is None or one.samples is None:
            continue
        made.append(
            Check(
                one.client,
                "it updates its estimate as often as it has samples, or less often",
                f"{one.updates:.0f} updates, {one.samples:.0f} samples",
                one.updates <= one.samples,
            )
        )
        if one.published_updates is not None:
            off = one.updates / one.published_updates - 1
            made.append(
                Check(
                    one.client,
                    f"as many updates as published, within {100 * WITHIN:g} %",
                    f"{one.updates:.0f}, published {one.published_updates} ({100 * off:+.0f} %)",
                    abs(off) <= WITHIN,
                )
            )
    return made


def log_of(path: Path, connections: Mapping[str, Row]) -> Log:
    """Return a log's content. `connections`: rows of quic_connection, by original destination connection ID.

    InputError: the log is unreadable, has no sample, or belongs to an unknown connection.
    """
    rows = list(read.metrics(path))
    if not rows:
        raise InputError(f"{path}: it has no RTT sample")
    connection = connections.get(rows[0]["odcid"] or "")
    if connection is None:
        raise InputError(f"{path}: it is of no connection of the capture")
    series = json.loads(connection["pto_series_us"] or "[]")
    return Log(
        updates=sum(row["updated"] for row in rows),
        pto_us=rows[0]["pto_us"],
        samples=connection["rtt_samples"] or 0,
        rfc_pto_us=series[0] if series else None,
    )


def _logged(experiment: Experiment, cell: Cell, rows: Sequence[Row], folder: Path) -> Logged:
    ended = done(rows)
    connections = {one["odcid"]: one for one in captured_packets.summaries(folder, ended)}
    logs: list[Log] = []
    damaged: list[str] = []
    for row in ended:
        try:
            logs.append(log_of(_path(folder, row), connections))
        except InputError as error:
            # Where the results are says nothing about them.
            damaged.append(str(error).replace(f"{folder}/", ""))
    theirs = next((one for one in experiment.updated if one.client == cell.client), None)
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
        published_updates=theirs.updates if theirs else None,
        published_new_acks=theirs.new_acks if theirs else None,
        damaged="; ".join(damaged) or None,
    )


def _path(folder: Path, row: Row) -> Path:
    """Return the client's log of a trial. InputError: it wrote none."""
    block = folder / Path(row["capture_file"]).parent
    found = sorted(block.glob(f"client-{row['repetition']:04d}.*qlog"))
    if not found:
        raise InputError(f"{block}: the client wrote no log in repetition {row['repetition']}")
    return found[0]
