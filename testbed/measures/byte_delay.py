"""How much fewer ACKs delay slow start (paper 003, Figure 5 and section 5.5).

A receiver that acknowledges every N-th packet sends the first ACK in a round trip after N packets. This
delays the sender by the transmission time of N - 1 packets. The delay grows with each round trip.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from reports.numbers.compared import ComparisonPanel, ComparisonSeries, series
from reports.tables.columns import PrintedColumn
from testbed.experiment.cell import Cell
from testbed.experiment.experiment import Experiment
from testbed.measures import Measure, Results
from testbed.measures.acknowledgements.model import HEADERS_BYTES
from testbed.summary import Check, SummaryPage, number, page
from testbed.trials.captures import captured_packets
from testbed.trials.captures.packets import Packet
from testbed.trials.cell_rows import by_cell, difference, done, median_of
from testbed.trials.trial_row import TrialRow

_FIRST, _ROUNDS = 10, 6
"""Datagrams of the first round trip in slow start (RFC 9002, 7.2); round trips of a transfer of 1 MB."""
_FULL_BYTES = 1000
"""Minimum UDP payload in a full data datagram; ACKs and the end of a stream are smaller."""
_WITHIN = 0.1
_LEAST = 2
"""The ratio to compare with."""


class ByteDelay(Experiment):
    """How much fewer ACKs delay slow start (paper 003, Figure 5); no published values."""


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


def rounds(experiment: ByteDelay, folder: Path, rows: Sequence[TrialRow]) -> list[Round]:
    """Return the round trips of each cell of `rows`; the captures are in `folder`.

    InputError if a capture was not kept, or a row belongs to no cell of the experiment.
    """
    read = [
        (cell, cell_rows, _times(folder, done(cell_rows))) for cell, cell_rows in by_cell(experiment, rows)
    ]
    least = {_stacks(cell): times for cell, _, times in read if cell.ack_ratio == _LEAST}
    return [
        line
        for cell, cell_rows, times in read
        for line in _rounds(cell, cell_rows, times, least.get(_stacks(cell)))
    ]


def arrivals_ms(packets: Sequence[Packet]) -> list[float]:
    """Return the arrival times of the server's full datagrams with 1-RTT packets, in ms from the first."""
    came = {
        packet["frame_number"]: packet["time_ns"]
        for packet in packets
        if not packet["from_client"] and packet["type"] == "1rtt" and packet["datagram_size"] >= _FULL_BYTES
    }
    first = min(came.values(), default=0)
    return sorted((time_ns - first) / 1e6 for time_ns in came.values())


def marks() -> list[int]:
    """Return the number of datagrams sent in slow start until the end of each round trip."""
    return [_FIRST * (2**number - 1) for number in range(1, _ROUNDS + 1)]


def summary(experiment: ByteDelay, lines: Sequence[Round]) -> SummaryPage:
    """Return the summary of round trips."""
    completed = [line for line in lines if line.done]
    columns = [
        PrintedColumn("RTT\nms", [f"{line.rtt_ms:g}" for line in completed]),
        PrintedColumn("asked\nratio", [f"{line.ack_ratio}" for line in completed]),
        PrintedColumn("round\ntrip", [f"{line.round}" for line in completed]),
        PrintedColumn("packets\nso far", [f"{line.packets}" for line in completed]),
        PrintedColumn("after\nms", [number(line.at_ms, 1) for line in completed]),
        PrintedColumn("later than\nratio 2, ms", [number(line.later_ms, 1) for line in completed]),
        PrintedColumn("model\nms", [number(line.model_ms, 1) for line in completed]),
        PrintedColumn("trials\ndone", [f"{line.done}/{line.trials}" for line in completed]),
    ]
    legend = (
        "Medians, from the first full packet. Model: the time of (ratio - 2) packets on the path for each\n"
        "earlier round trip, until the path is full. The paper's figure shows quicly without pacing;\n"
        "its values cannot be read.\n"
    )
    missing = list(dict.fromkeys(line.cell for line in lines if not line.done))
    of = len({line.cell for line in lines})
    return page(experiment, columns, legend, list(_checks(completed)), missing, of)


def _checks(lines: Sequence[Round]) -> Iterator[Check]:
    cells: dict[str, list[Round]] = {}
    for line in lines:
        if line.later_ms is not None:
            cells.setdefault(line.cell, []).append(line)
    for group in cells.values():
        first, last = group[0].later_ms, group[-1].later_ms
        # The model does not cover a single round trip, or a first round trip that fills the path.
        if first is None or last is None or not group[-1].model_ms:
            continue
        grown_ms, model_ms = last - first, group[-1].model_ms
        yield Check(
            f"RTT {group[0].rtt_ms:g} ms, ratio {group[0].ack_ratio}",
            f"after the first round trip it gets later as in the model, within {100 * _WITHIN:g} %",
            f"{grown_ms:.1f} for {model_ms:.1f} ms",
            abs(grown_ms - model_ms) <= _WITHIN * model_ms,
        )


def _stacks(cell: Cell) -> tuple[float, str, str]:
    """Return the fields that a cell shares with the cell that it is compared with."""
    return cell.rtt_ms, cell.client, cell.server


def _times(folder: Path, ended: Sequence[TrialRow]) -> list[list[float]]:
    return [arrivals_ms(packets) for packets in captured_packets.connections(folder, ended)] if ended else []


def _rounds(
    cell: Cell, rows: Sequence[TrialRow], times: Sequence[list[float]], least: Sequence[list[float]] | None
) -> Iterator[Round]:
    packet_ms = 8 * (1200 + HEADERS_BYTES) / 1000 / cell.rate_mbit
    # Round trips with ACKs that release more packets, until the packets fill the path.
    most = max(0, math.floor(math.log2(cell.rtt_ms / packet_ms / _FIRST)))
    for place, packets in enumerate(marks(), start=1):
        at_ms, other_ms = (median_of(trials_ms, _arrival_of(packets)) for trials_ms in (times, least or []))
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


def _arrival_of(count: int) -> Callable[[Sequence[float]], float | None]:
    """Return a function that returns the arrival time of packet `count` in a trial's times."""
    return lambda times: times[count - 1] if len(times) >= count else None


def panels(lines: Sequence[Round]) -> list[ComparisonPanel]:
    """Return a panel for each RTT: packets received over time, and their delay."""
    figure = []
    for rtt_ms in dict.fromkeys(line.rtt_ms for line in lines):
        group = [line for line in lines if line.rtt_ms == rtt_ms]
        arrivals: tuple[ComparisonSeries, ...] = ()
        delays: tuple[ComparisonSeries, ...] = ()
        for ratio in dict.fromkeys(line.ack_ratio for line in group):
            of_ratio = [line for line in group if line.ack_ratio == ratio]
            known = [(line.at_ms, line.packets) for line in of_ratio if line.at_ms is not None]
            arrivals += series(f"ratio {ratio}", [(at_ms / 1000, packets) for at_ms, packets in known])
            delays += series(f"ratio {ratio}", [(line.round, line.later_ms) for line in of_ratio])
        figure.append(ComparisonPanel(f"RTT {rtt_ms:g} ms", "Packets", arrivals, "Time [s]"))
        figure.append(ComparisonPanel(f"RTT {rtt_ms:g} ms", "Later than ratio 2 [ms]", delays, "Round trip"))
    return figure


def results(experiment: ByteDelay, folder: Path, rows: Sequence[TrialRow]) -> Results:
    """Return a line for each round trip of each cell, read from the captures in `folder`."""
    lines = rounds(experiment, folder, rows)
    return Results(lines, lambda: summary(experiment, lines), lambda: panels(lines))


MEASURE = Measure(ByteDelay, results)
