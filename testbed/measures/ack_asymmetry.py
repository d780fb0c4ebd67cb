"""Paths with a slow return direction: the data rate, and the rate at which ACKs fill that direction.

Only the second half of each transfer counts, when the sender is past its start. Rates and sizes are of
Ethernet frames, like the path's rate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from reports.numbers.compared import ComparisonPanel, series
from reports.tables.columns import PrintedColumn
from testbed.experiment.cell import Cell
from testbed.experiment.experiment import Experiment
from testbed.measures import Measure, Results
from testbed.measures.acknowledgements import model
from testbed.summary import Check, SummaryPage, count, number, page, seconds
from testbed.trials.captures import captured_packets
from testbed.trials.captures.packets import Packet
from testbed.trials.cell_rows import by_cell, column, done, median_ms, median_of
from testbed.trials.trial_row import TrialRow

WITHIN = 0.1


class AckAsymmetry(Experiment):
    """Rates of transfers on paths with a slow return direction; no published values."""


@dataclass(frozen=True)
class Late:
    """The second half of a transfer, as the client received it. `ack_bytes`: null if it sent no ACKs."""

    mbit: float
    data_bytes: float
    ack_bytes: float | None
    acks: int
    seconds: float


@dataclass(frozen=True)
class Asymmetric:
    """A cell. Numbers are medians over completed trials; null without any.

    `asymmetry`: the rate towards the client divided by the rate towards the server. `limit_mbit`: the data
    rate at which ACKs of the requested ratio fill the return direction; `expected_mbit`: the smaller of this
    limit and the path's rate. `back_percent`: the client's datagrams in percent of the return direction's
    rate; `back_drops`: client datagrams that its queue dropped.
    """

    cell: str
    client: str
    server: str
    rtt_ms: float
    asymmetry: float
    up_queue_packets: int | None
    ack_ratio: int | None
    trials: int
    done: int
    transfer_ms: float | None
    data_bytes: float | None
    ack_bytes: float | None
    mbit: float | None
    limit_mbit: float | None
    expected_mbit: float | None
    back_percent: float | None
    back_drops: float | None
    verdict: str | None

    def as_dict(self) -> dict[str, Any]:
        """Return the columns as a dictionary."""
        return asdict(self)


def cells(experiment: AckAsymmetry, folder: Path, rows: Sequence[TrialRow]) -> list[Asymmetric]:
    """Return a line for each cell of `rows`; the captures are in `folder`.

    InputError if a capture was not kept, or a row belongs to no cell of the experiment.
    """
    return [_asymmetric(cell, cell_rows, folder) for cell, cell_rows in by_cell(experiment, rows)]


def second_half(packets: Sequence[Packet]) -> Late | None:
    """Return the second half of a transfer; `None` if it is too short. `packets`: rows of quic_packet."""
    datagrams = {packet["frame_number"]: packet for packet in packets}
    sent = [packet for packet in datagrams.values() if not packet["from_client"]]
    half = sent[len(sent) // 2 :]
    if not half or half[-1]["time_ns"] <= half[0]["time_ns"]:
        return None
    begin_ns, end_ns = half[0]["time_ns"], half[-1]["time_ns"]
    sizes = [packet["datagram_size"] + model.HEADERS_BYTES for packet in half]
    back = [
        packet["datagram_size"] + model.HEADERS_BYTES
        for packet in datagrams.values()
        if packet["from_client"] and begin_ns <= packet["time_ns"] <= end_ns
    ]
    seconds = (end_ns - begin_ns) / 1e9
    return Late(
        # The first datagram's bytes arrived before the measured time.
        mbit=8 * sum(sizes[1:]) / 1e6 / seconds,
        data_bytes=median(sizes),
        ack_bytes=median(back) if back else None,
        acks=len(back),
        seconds=seconds,
    )


def _asymmetric(cell: Cell, rows: Sequence[TrialRow], folder: Path) -> Asymmetric:
    ended = done(rows)
    halves = [
        measured
        for packets in captured_packets.connections(folder, ended)
        if (measured := second_half(packets)) is not None
    ]
    complete = [half for half in halves if half.ack_bytes is not None]
    mbit = median_of(halves, lambda half: half.mbit)
    data_bytes = median_of(halves, lambda half: half.data_bytes)
    ack_bytes = median_of(halves, lambda half: half.ack_bytes)
    limit = expected = None
    if cell.ack_ratio is not None and data_bytes is not None and ack_bytes is not None:
        limit = model.forward_limit_mbit(cell.up_mbit, cell.ack_ratio, data_bytes, ack_bytes)
        expected = min(cell.rate_mbit, limit)
    return Asymmetric(
        cell=cell.name,
        client=cell.client,
        server=cell.server,
        rtt_ms=cell.rtt_ms,
        asymmetry=cell.rate_mbit / cell.up_mbit,
        up_queue_packets=cell.up_queue_packets,
        ack_ratio=cell.ack_ratio,
        trials=len(rows),
        done=len(ended),
        transfer_ms=median_ms(ended, column("transfer_us")),
        data_bytes=data_bytes,
        ack_bytes=ack_bytes,
        mbit=mbit,
        limit_mbit=limit,
        expected_mbit=expected,
        back_percent=median_of(complete, lambda half: _back_percent(cell, half)),
        back_drops=median_of(ended, column("queue_to_server_drops")),
        verdict=None if expected is None or mbit is None else _verdict(expected, mbit),
    )


def _back_percent(cell: Cell, half: Late) -> float:
    return 100 * 8 * half.acks * (half.ack_bytes or 0) / 1e6 / half.seconds / cell.up_mbit


def _verdict(expected: float, measured: float) -> str:
    return "met" if abs(measured / expected - 1) <= WITHIN else "not met"


def summary(experiment: AckAsymmetry, lines: Sequence[Asymmetric]) -> SummaryPage:
    """Return the summary of asymmetric paths."""
    completed = [line for line in lines if line.done]
    columns = [
        PrintedColumn("path\n", [f"{line.asymmetry:g}:1" for line in completed]),
        PrintedColumn("queue\nback", [count(line.up_queue_packets) for line in completed]),
        PrintedColumn("asked\nratio", [count(line.ack_ratio) for line in completed]),
        PrintedColumn("transfer\ns", [seconds(line.transfer_ms) for line in completed]),
        PrintedColumn("data\nbytes", [number(line.data_bytes, 0) for line in completed]),
        PrintedColumn("ACK\nbytes", [number(line.ack_bytes, 0) for line in completed]),
        PrintedColumn("limit\nMbit/s", [number(line.limit_mbit, 2) for line in completed]),
        PrintedColumn("expected\nMbit/s", [number(line.expected_mbit, 2) for line in completed]),
        PrintedColumn("found\nMbit/s", [number(line.mbit, 2) for line in completed]),
        PrintedColumn("way back\n%", [number(line.back_percent, 0) for line in completed]),
        PrintedColumn("\ndrops", [number(line.back_drops, 0) for line in completed]),
        PrintedColumn("trials\ndone", [f"{line.done}/{line.trials}" for line in completed]),
    ]
    checks = [
        Check(
            f"{line.asymmetry:g}:1, ratio {count(line.ack_ratio)}, queue of {count(line.up_queue_packets)}",
            f"within {100 * WITHIN:g} % of the expected rate",
            f"{number(line.mbit, 2)} for {number(line.expected_mbit, 2)} Mbit/s",
            line.verdict == "met",
        )
        for line in completed
        if line.verdict is not None
    ]
    legend = (
        "Limit: rate towards the server x ratio x bytes of data / bytes of an ACK.\n"
        "Expected: the smaller of the limit and the path's rate. Found: in the second half of a transfer.\n"
        "Sizes are of Ethernet frames; numbers are medians.\n"
    )
    missing = [line.cell for line in lines if not line.done]
    return page(experiment, columns, legend, checks, missing, len(lines))


def panels(lines: Sequence[Asymmetric]) -> list[ComparisonPanel]:
    """Return the figure: found and expected rate of each path."""
    dots = series("found", [(_path(line), line.mbit) for line in lines])
    dots += series("expected", [(_path(line), line.expected_mbit) for line in lines])
    return [ComparisonPanel("Transfers' second half", "Rate of data [Mbit/s]", dots)] if lines else []


def _path(line: Asymmetric) -> str:
    return f"{line.asymmetry:g}:1, ratio {line.ack_ratio or '-'}, {line.up_queue_packets}"


def results(experiment: AckAsymmetry, folder: Path, rows: Sequence[TrialRow]) -> Results:
    """Return a line for each cell, read from the captures in `folder`."""
    lines = cells(experiment, folder, rows)
    return Results(lines, lambda: summary(experiment, lines), lambda: panels(lines))


MEASURE = Measure(AckAsymmetry, results)
