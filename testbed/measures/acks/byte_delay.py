"""How much fewer ACKs delay slow start (paper 003, Figure 5 and section 5.5).

A receiver that acknowledges every N-th packet sends the first ACK of a round trip after N packets. This
delays the sender by the transmission time of N - 1 packets. The delay grows with each round trip.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from reports.tables.columns import Column
from testbed.experiment.cell import Cell
from testbed.experiment.experiment import Experiment
from testbed.measures.page import Check, Page, number, page
from testbed.trials.captures import captured_packets
from testbed.trials.captures.packets import Packet
from testbed.trials.cell_rows import by_cell, difference, done, median_of
from testbed.trials.trial_row import Row

_FIRST, _ROUNDS = 10, 6
"""Datagrams of the first round trip in slow start (RFC 9002, 7.2); round trips of a transfer of 1 MB."""
_FULL_BYTES = 1000
"""UDP payload of a datagram that is full of data, not an ACK or the end of a stream."""
_HEADERS_BYTES = 14 + 20 + 8
_WITHIN = 0.1
_LEAST = 2
"""The ratio that others are compared with."""


@dataclass(frozen=True)
class Round:
    """A round trip of slow start in a cell: the client had received `packets` at `at_ms` after the first.

    `later_ms`: the delay compared with a ratio of 2 (null for ratio 2). `model_ms`: this delay by the paper's
    byte delay, which stops growing when a round trip's packets fill the path. Numbers are medians over
    completed trials; null without any.
    """

    cell: str
    client: str
    server: str
    rtt_ms: float
    ack_ratio: int | None
    trials: int
    done: int
    round: int
    packets: int
    at_ms: float | None
    later_ms: float | None
    model_ms: float | None

    def as_dict(self) -> dict[str, Any]:
        """Return the columns as a dictionary."""
        return asdict(self)


def rounds(experiment: Experiment, folder: Path, rows: Sequence[Row]) -> list[Round]:
    """Return the round trips of each cell that `rows` are of; their captures are in `folder`.

    InputError if a capture was not kept, or a row is of no cell of the experiment.
    """
    read = [(cell, own, _times(folder, done(own))) for cell, own in by_cell(experiment, rows)]
    least = {_stacks(cell): times for cell, _, times in read if cell.ack_ratio == _LEAST}
    return [one for cell, own, times in read for one in _rounds(cell, own, times, least.get(_stacks(cell)))]


def arrivals_ms(packets: Sequence[Packet]) -> list[float]:
    """Return the arrival times of the server's full datagrams with 1-RTT packets, in ms from the first."""
    came = {
        one["frame_number"]: one["time_ns"]
        for one in packets
        if not one["from_client"] and one["type"] == "1rtt" and one["datagram_size"] >= _FULL_BYTES
    }
    first = min(came.values(), default=0)
    return sorted((time_ns - first) / 1e6 for time_ns in came.values())


def marks() -> list[int]:
    """Return how many datagrams slow start has sent at the end of each round trip."""
    return [_FIRST * (2**number - 1) for number in range(1, _ROUNDS + 1)]


def summary(experiment: Experiment, found: Sequence[Round]) -> Page:
    """Return the summary of round trips."""
    here = [one for one in found if one.done]
    columns = [
        Column("RTT\nms", [f"{one.rtt_ms:g}" for one in here]),
        Column("asked\nratio", [f"{one.ack_ratio}" for one in here]),
        Column("round\ntrip", [f"{one.round}" for one in here]),
        Column("packets\nso far", [f"{one.packets}" for one in here]),
        Column("after\nms", [number(one.at_ms, 1) for one in here]),
        Column("later than\nratio 2, ms", [number(one.later_ms, 1) for one in here]),
        Column("model\nms", [number(one.model_ms, 1) for one in here]),
        Column("trials\ndone", [f"{one.done}/{one.trials}" for one in here]),
    ]
    legend = (
        "Medians, from the first full packet on. Model: (ratio - 2) packets' time on the path for each\n"
        "round trip before, until the path is full. The paper's figure is of quicly without pacing; no\n"
        "value of it can be read.\n"
    )
    missing = list(dict.fromkeys(one.cell for one in found if not one.done))
    of = len({one.cell for one in found})
    return page(experiment, columns, legend, list(_checks(here)), missing, of)


def _checks(found: Sequence[Round]) -> Iterator[Check]:
    cells: dict[str, list[Round]] = {}
    for one in found:
        if one.later_ms is not None:
            cells.setdefault(one.cell, []).append(one)
    for own in cells.values():
        first, last = own[0].later_ms, own[-1].later_ms
        # The model does not cover a single round trip, or a first round trip that fills the path.
        if first is None or last is None or not own[-1].model_ms:
            continue
        grown_ms, model_ms = last - first, own[-1].model_ms
        yield Check(
            f"RTT {own[0].rtt_ms:g} ms, ratio {own[0].ack_ratio}",
            f"from the first round trip on it gets later as the model, within {100 * _WITHIN:g} %",
            f"{grown_ms:.1f} for {model_ms:.1f} ms",
            abs(grown_ms - model_ms) <= _WITHIN * model_ms,
        )


def _stacks(cell: Cell) -> tuple[float, str, str]:
    """Return the fields that a cell shares with the cell it is compared with."""
    return cell.rtt_ms, cell.client, cell.server


def _times(folder: Path, ended: Sequence[Row]) -> list[list[float]]:
    return [arrivals_ms(one) for one in captured_packets.connections(folder, ended)] if ended else []


def _rounds(
    cell: Cell, rows: Sequence[Row], times: Sequence[list[float]], least: Sequence[list[float]] | None
) -> Iterator[Round]:
    packet_ms = 8 * (1200 + _HEADERS_BYTES) / 1000 / cell.rate_mbit
    # Round trips whose ACKs release more packets, until the packets fill the path.
    most = max(0, math.floor(math.log2(cell.rtt_ms / packet_ms / _FIRST)))
    for place, packets in enumerate(marks(), start=1):
        at_ms, other_ms = (median_of(one, _at(packets)) for one in (times, least or []))
        compared = cell.ack_ratio is not None and cell.ack_ratio > _LEAST
        yield Round(
            cell=cell.name,
            client=cell.client,
            server=cell.server,
            rtt_ms=cell.rtt_ms,
            ack_ratio=cell.ack_ratio,
            trials=len(rows),
            done=len(done(rows)),
            round=place,
            packets=packets,
            at_ms=at_ms,
            later_ms=difference(at_ms, other_ms) if compared else None,
            # No ACK precedes the first round trip.
            model_ms=((cell.ack_ratio or 0) - _LEAST) * packet_ms * min(place - 1, most)
            if compared
            else None,
        )


def _at(count: int) -> Callable[[Sequence[float]], float | None]:
    """Return a function that gives the arrival time of packet `count`, from the times of a trial."""
    return lambda times: times[count - 1] if len(times) >= count else None
