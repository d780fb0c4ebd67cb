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

from firstflight.errors import InputError
from reports.tables.columns import Column
from testbed.experiment.cell import Cell
from testbed.experiment.experiment import Experiment
from testbed.experiment.published import Launched
from testbed.measures.page import Check, Page, number, page
from testbed.trials.captures import lateness
from testbed.trials.captures.block_files import SENDER_LOG, SENT, TRIALS
from testbed.trials.cell_rows import by_cell, done, median_of
from testbed.trials.trial_row import Row, by_repetition, is_of

TAG = slice(-16, None)
ORDER = ("fq", "etf", "none")
"""Queueing disciplines by precision, as published."""
_GROWTH_BYTES = 2 * 1350
"""What an ACK adds to a window: one or two datagrams. A rollback adds more at once."""


@dataclass(frozen=True)
class Window:
    """A congestion window at a time in ns: bytes, and packets that the connection has lost until then."""

    time_ns: int
    size: int
    lost: int


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


def cells(experiment: Experiment, folder: Path, rows: Sequence[Row]) -> list[Launches]:
    """Return a line for each cell that `rows` are of; logs and captures are in `folder`.

    InputError if these were not kept, or a row is of no cell of the experiment.
    """
    return [_launches(experiment, cell, own, folder) for cell, own in by_cell(experiment, rows)]


def late_ns(launches: Mapping[str, int], left: Iterable[tuple[int, bytes]]) -> list[int]:
    """Return how much later than its launch time each datagram left, in ns.

    `launches`: launch time by tag, in hex digits; `left`: times and tags of a capture.
    """
    return [time_ns - launches[tag.hex()] for time_ns, tag in left if tag.hex() in launches]


def reduced(windows: Sequence[Window]) -> Iterator[tuple[Window, Window | None]]:
    """Yield each reduction, and the rollback of the window before the next reduction, or None.

    quiche 0.30 rolls back if it lost fewer packets than a fifth of the window
    (src/recovery/congestion/cubic.rs, `rollback`): the window returns to its size before the reduction.
    """
    changes = [(one, other) for one, other in itertools.pairwise(windows) if one.size != other.size]
    starts = [number for number, (one, other) in enumerate(changes) if other.size < one.size]
    for start, end in itertools.pairwise([*starts, len(changes)]):
        before, after = changes[start]
        back = (
            other
            for one, other in changes[start + 1 : end]
            if other.size == before.size and other.size - one.size > _GROWTH_BYTES
        )
        yield after, next(back, None)


def rolling_ns(windows: Sequence[Window]) -> int:
    """Return the longest time, in ns, in which each reduction was rolled back to one and the same window."""
    longest = begun = size = 0
    for reduction, back in reduced(windows):
        if back is None:
            size = 0
            continue
        begun = begun if back.size == size else reduction.time_ns
        size = back.size
        longest = max(longest, back.time_ns - begun)
    return longest


def summary(experiment: Experiment, found: Sequence[Launches]) -> Page:
    """Return the summary of cells."""
    here = [one for one in found if one.done]
    columns = [
        Column("server\n", [one.server for one in here], right=False),
        Column("control\n", [one.congestion_control or "-" for one in here], right=False),
        Column("qdisc\n", [one.qdisc for one in here], right=False),
        Column("datagrams\n", [number(one.datagrams, 0) for one in here]),
        Column("late p50\nus", [number(one.late_p50_us, 0) for one in here]),
        Column("precision\nms", [number(one.precision_ms, 3) for one in here]),
        Column("publ.\n", [number(one.published_precision_ms, 2) for one in here]),
        Column("window\nreduced", [number(one.reductions, 0) for one in here]),
        Column("\nrolled back", [number(one.rollbacks, 0) for one in here]),
        Column("rolling\ns", [number(one.rolling_s, 2) for one in here]),
        Column("trials\ndone", [f"{one.done}/{one.trials}" for one in here]),
    ]
    legend = (
        "Medians. Late: when a datagram left the server, less its launch time by the server's log;\n"
        "precision: the standard deviation of that. Rolled back: the window is at once what it was before\n"
        "a reduction. Rolling: the longest time in which that was one and the same window.\n"
    )
    missing = [one.cell for one in found if not one.done]
    return page(experiment, columns, legend, list(_checks(here)), missing, len(found))


def _checks(found: Sequence[Launches]) -> Iterator[Check]:
    for server, control in dict.fromkeys((one.server, one.congestion_control) for one in found):
        known = {
            one.qdisc: one.precision_ms
            for one in found
            if (one.server, one.congestion_control) == (server, control) and one.precision_ms is not None
        }
        order = [known[qdisc] for qdisc in ORDER if qdisc in known]
        if len(order) > 1:
            names = [qdisc for qdisc in ORDER if qdisc in known]
            values = ", ".join(f"{qdisc} {known[qdisc]:.3f} ms" for qdisc in names)
            yield Check(
                f"{server}, {control}",
                f"precision in the published order: {' < '.join(names)}",
                values,
                all(one < other for one, other in itertools.pairwise(order)),
            )
    for one in found:
        if one.congestion_control == "cubic" and one.rollbacks is not None:
            yield Check(
                f"{one.server}, cubic, qdisc {one.qdisc}",
                "several reductions of the window are rolled back",
                f"{one.rollbacks:.0f} of {one.reductions:.0f}",
                one.rollbacks > 1,
            )


def _launches(experiment: Experiment, cell: Cell, rows: Sequence[Row], folder: Path) -> Launches:
    ended = done(rows)
    blocks: dict[str | None, list[Row]] = {}
    for row in ended:
        blocks.setdefault(row["capture_file"], []).append(row)
    logs = [one for own in blocks.values() for one in _of_block(folder, own)]
    late = [one for one, _ in logs if one]
    windows = [one for _, one in logs if one]
    back = [[reduction[1] is not None for reduction in reduced(one)] for one in windows]
    first = windows[0] if windows else []
    return Launches(
        cell=cell.name,
        server=cell.server,
        server_version=ended[0]["server_version"] if ended else None,
        congestion_control=cell.congestion_control,
        qdisc=cell.qdisc,
        trials=len(rows),
        done=len(ended),
        datagrams=median_of(late, len),
        late_p50_us=median_of(late, lambda one: (median_of(one, float) or 0) / 1e3),
        precision_ms=median_of(late, lambda one: pstdev(one) / 1e6),
        published_precision_ms=next(
            (one.precision_ms for one in experiment.launched if _is_of(one, cell)), None
        ),
        reductions=median_of(back, len),
        rollbacks=median_of(back, sum),
        rolling_s=median_of(windows, lambda one: rolling_ns(one) / 1e9),
        windows=tuple(((one.time_ns - first[0].time_ns) / 1e9, one.size) for one in first),
    )


def _is_of(theirs: Launched, cell: Cell) -> bool:
    return (theirs.server, theirs.qdisc) == (cell.server, cell.qdisc)


def _of_block(folder: Path, rows: Sequence[Row]) -> Iterator[tuple[list[int], list[Window]]]:
    """Yield how late the datagrams of each trial of a block left, in ns, and its windows.

    InputError: no log or capture.
    """
    row = rows[0]
    block = folder / Path(row["capture_file"] or "").parent
    log, sent = block / SENDER_LOG, block / SENT
    if row["capture_file"] is None or not (log.is_file() and sent.is_file()):
        raise InputError(
            f"{folder}: log and capture of cell {row['cell']} were not kept, and this is of them"
        )
    # A server that was killed may have left a part of a line.
    whole = log.read_text(encoding="utf-8").rpartition("\n")[0]
    lines = [json.loads(line) for line in whole.splitlines()]
    left = list(lateness.datagrams(sent, TAG))
    trials = by_repetition(block / TRIALS)
    for trial in (trials[row["repetition"]] for row in rows):
        own = [one for one in lines if is_of(one["time_ns"], trial)]
        launches = {one["tag"]: one["time_ns"] for one in own if "tag" in one}
        windows = [
            Window(one["time_ns"], one["window_bytes"], one["lost"]) for one in own if "window_bytes" in one
        ]
        yield late_ns(launches, (one for one in left if is_of(one[0], trial))), windows
