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

from testbed.experiment.cell import Cell
from testbed.experiment.experiment import Experiment
from testbed.measures.acks import model
from testbed.trials.captures import captured_packets
from testbed.trials.captures.packets import Packet
from testbed.trials.cell_rows import by_cell, column, done, median_ms, median_of
from testbed.trials.trial_row import Row

WITHIN = 0.1
HEADERS_BYTES = model.ETHERNET_BYTES + 20 + 8
"""Of Ethernet, IPv4 and UDP."""


@dataclass(frozen=True)
class Late:
    """The second half of a transfer, as the client received it. `ack_bytes`: null if it sent none."""

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


def cells(experiment: Experiment, folder: Path, rows: Sequence[Row]) -> list[Asymmetric]:
    """Return a line for each cell that `rows` are of; their captures are in `folder`.

    InputError if a capture was not kept, or a row is of no cell of the experiment.
    """
    return [_asymmetric(cell, own, folder) for cell, own in by_cell(experiment, rows)]


def late(packets: Sequence[Packet]) -> Late | None:
    """Return the second half of a transfer; None if it is too short. `packets`: rows of quic_packet."""
    datagrams = {one["frame_number"]: one for one in packets}
    sent = [one for one in datagrams.values() if not one["from_client"]]
    half = sent[len(sent) // 2 :]
    if not half or half[-1]["time_ns"] <= half[0]["time_ns"]:
        return None
    begin_ns, end_ns = half[0]["time_ns"], half[-1]["time_ns"]
    sizes = [one["datagram_size"] + HEADERS_BYTES for one in half]
    back = [
        one["datagram_size"] + HEADERS_BYTES
        for one in datagrams.values()
        if one["from_client"] and begin_ns <= one["time_ns"] <= end_ns
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


def _asymmetric(cell: Cell, rows: Sequence[Row], folder: Path) -> Asymmetric:
    ended = done(rows)
    halves = [
        found for one in captured_packets.connections(folder, ended) if (found := late(one)) is not None
    ]
    whole = [one for one in halves if one.ack_bytes is not None]
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
        back_percent=median_of(whole, lambda half: _back_percent(cell, half)),
        back_drops=median_of(ended, column("queue_to_server_drops")),
        verdict=None if expected is None or mbit is None else _verdict(expected, mbit),
    )


def _back_percent(cell: Cell, half: Late) -> float:
    return 100 * 8 * half.acks * (half.ack_bytes or 0) / 1e6 / half.seconds / cell.up_mbit


def _verdict(expected: float, found: float) -> str:
    return "met" if abs(found / expected - 1) <= WITHIN else "not met"
