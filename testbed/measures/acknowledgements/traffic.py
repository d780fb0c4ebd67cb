"""The quantities in equations 1 to 5 of paper 003 (section 5.4), from the packets of a captured transfer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from firstflight.errors import InputError
from testbed.experiment.cell import Cell
from testbed.measures.acknowledgements import model
from testbed.trials.captures import captured_packets
from testbed.trials.captures.packets import Packet, is_eliciting
from testbed.trials.trial_row import TrialRow

DEFAULT_RATIO = 2
"""The ratio that RFC 9000 recommends (13.2.2)."""
DEFAULT_DELAY_MS = 25.0
"""A receiver's maximum ACK delay by default (RFC 9000, 18.2)."""
EXTRA = {"at_once": 1, "ignored": 0, "next_three": 3}
"""The paper's k: the packets that a receiver acknowledges at once after a gap, by the requested response."""
_SLACK_NS = 1_000_000
"""Timers fire at most this much early, as in the dissector (dissector/native/src/quic/acks)."""
_UDP_IP_BYTES = 20 + 8
_HANDSHAKE = {"initial", "handshake"}


@dataclass(frozen=True)
class Traffic:
    """A client's acknowledgements in one transfer.

    `packets`: ack-eliciting 1-RTT packets that it received. `by_timer`: its ACKs that waited the maximum
    delay, and `timer_packets`: the packets that these acknowledge for the first time. `gaps`: events with a
    gap or a late packet, of which those within one RTT count once (the paper's L). `ack_bytes`: median IP
    bytes of a datagram with only an ACK; `None` without any. `handshake_bytes`: IP bytes of the datagrams
    with Initial or Handshake packets (V_crypt).
    """

    packets: int
    by_timer: int
    timer_packets: int
    gaps: int
    ack_bytes: float | None
    handshake_bytes: int

    def alpha(self, ratio: float) -> float | None:
        """Return the paper's α: the mean share of a ratio's packets in an ACK by the timer."""
        return self.timer_packets / self.by_timer / ratio if self.by_timer else None

    def client_bytes(
        self, ratio: float, later: tuple[float, float] | None, extra: int, alpha: float | None
    ) -> float | None:
        """Return T_client by equations 2 to 5, in IP bytes; `None` if no ACK is alone in a datagram.

        `later`: as in `model.acks`; `extra`: the paper's k; `alpha`: its α, without effect if no ACK is by
        the timer.
        """
        if self.ack_bytes is None:
            return None
        acks = model.acks(self.packets, ratio, self.by_timer, later, alpha=alpha or 0.0)
        return (acks + extra * self.gaps) * self.ack_bytes + self.handshake_bytes


def of_trials(folder: Path, cell: Cell, rows: Sequence[TrialRow]) -> list[tuple[TrialRow, Traffic]]:
    """Return `rows`, completed trials of a cell in the experiment's `folder`, each with its traffic.

    Leaves out trials without a kept capture. InputError if a capture lacks a trial's connection.
    """
    kept = [
        row
        for row in rows
        if row["capture_file"] and row["keys_file"] and (folder / row["capture_file"]).is_file()
    ]
    kept.sort(key=lambda row: row["repetition"])
    # A capture has the trials of a block in their order, and a completed trial is one connection.
    connections = captured_packets.connections(folder, kept) if kept else []
    if len(connections) != len(kept):
        raise InputError(
            f"{folder}: the captures of cell {cell.name} have {len(connections)} connections for {len(kept)} "
            "completed trials; run the cell again without --resume"
        )
    delay_ms = cell.ack_delay_ms or DEFAULT_DELAY_MS
    return [
        (row, traffic(packets, delay_ms, cell.rtt_ms)) for row, packets in zip(kept, connections, strict=True)
    ]


def traffic(packets: Sequence[Packet], delay_ms: float, rtt_ms: float) -> Traffic:
    """Return the acknowledgements of a connection's client, whose maximum ACK delay is `delay_ms`."""
    received = _Received(rtt_ms)
    by_timer = timer_packets = 0
    only_acks: list[int] = []
    handshake: dict[int, int] = {}
    for packet in packets:
        if packet["from_client"] and packet["type"] in _HANDSHAKE:
            handshake[packet["frame_number"]] = packet["datagram_size"] + _UDP_IP_BYTES
        if packet["type"] != "1rtt" or packet["frames"] is None:
            continue
        frames = [frame.split() for frame in packet["frames"].split("; ")]
        kinds = {words[0] for words in frames if words}
        if not packet["from_client"]:
            received.packet(
                packet["packet_number"], packet["time_ns"], is_eliciting=is_eliciting(packet["frames"])
            )
            continue
        if "ack" not in kinds:
            continue
        if kinds <= {"ack", "padding"} and packet["size"] == packet["datagram_size"]:
            only_acks.append(packet["datagram_size"] + _UDP_IP_BYTES)
        new = [ns for words in frames if words[:1] == ["ack"] for ns in received.acknowledged(words[1])]
        waited = bool(new) and packet["time_ns"] - min(new) >= delay_ms * 1e6 - _SLACK_NS
        if waited and not received.is_out_of_order:
            by_timer += 1
            timer_packets += len(new)
    return Traffic(
        packets=received.eliciting,
        by_timer=by_timer,
        timer_packets=timer_packets,
        gaps=received.gaps,
        ack_bytes=median(only_acks) if only_acks else None,
        handshake_bytes=sum(handshake.values()),
    )


class _Received:
    """The server's 1-RTT packets that arrived, as in the dissector (received.rs)."""

    def __init__(self, rtt_ms: float) -> None:
        self.eliciting = self.gaps = 0
        self.is_out_of_order = False
        self._next = 0
        self._pending: dict[int, int] = {}
        self._rtt_ns = rtt_ms * 1e6
        self._gap_ns: int | None = None

    def packet(self, number: int, ns: int, *, is_eliciting: bool) -> None:
        self.is_out_of_order = number != self._next
        if self.is_out_of_order and (self._gap_ns is None or ns - self._gap_ns > self._rtt_ns):
            self.gaps += 1
            self._gap_ns = ns
        self._next = max(self._next, number + 1)
        if is_eliciting:
            self.eliciting += 1
            self._pending[number] = ns

    def acknowledged(self, ranges: str) -> Iterator[int]:
        """Yield the arrival times of the packets that an ACK with these ranges acknowledges first."""
        for text in ranges.split(","):
            low, _, high = text.partition("-")
            within = range(int(low), int(high or low) + 1)
            for number in [number for number in self._pending if number in within]:
                yield self._pending.pop(number)
