"""Downloads over TCP through a link with a declared rate, delay and loss, computed and written as captures.

The server sends as RFC 9293 and RFC 5681 permit: within the congestion window, the receive window, and the
data that its application has written. The client acknowledges each segment at once. Times are in nanoseconds.
"""

from __future__ import annotations

import heapq
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from tests.dissect.tcp.tcp_stories import ACK, PSH, SYN, segment

MS = 1_000_000
SEGMENT = 1448  # bytes: payload of a full segment with timestamps
HEADERS = 52
REQUEST = 200
FAST = 1_000_000_000  # bit/s
_CLIENT, _SERVER = 0, 1


@dataclass
class Transfer:
    """A download and its limits.

    `writes`: (time after the request's arrival in ms, bytes) of the application. `windows`: congestion window
    at the start, and the largest one, in segments. `dropped`: numbers of segments that the link loses once.
    `seen_by`: the side of the capture.
    """

    writes: Sequence[tuple[float, int]]
    rtt_ms: float = 50
    rate_bps: int = FAST
    window: int = 65535
    shift: int | None = None
    windows: tuple[int, int] = (10, 10_000)
    dropped: frozenset[int] = frozenset()
    stamps: bool = True
    seen_by: int = _CLIENT
    packets: list[tuple[int, bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._half = int(self.rtt_ms * MS / 2)
        self._events: list[tuple[int, int, tuple[str, tuple[int, ...]]]] = []
        self._numbers = count()
        self._latest = 0  # the newest timestamp value that the server has
        self._written = self._next = self._acked = self._sent = 0
        self._edge = self.window << (self.shift or 0)
        self._cwnd = float(self.windows[0])
        self._free_ns = 0
        self._received: set[tuple[int, int]] = set()
        self._contiguous = 0
        self._lost: list[tuple[int, int]] = []

    def run(self) -> Transfer:
        """Compute all packets."""
        self._handshake()
        begin = 3 * self._half
        for after_ms, size in self.writes:
            self._at(begin + int(after_ms * MS), "write", size)
        while self._events:
            ns, _, (kind, values) = heapq.heappop(self._events)
            getattr(self, f"_{kind}")(ns, *values)
        return self

    def write(self, path: Path, left_out: Sequence[int] = ()) -> Path:
        """Write the capture (raw IP), without the packets with these numbers."""
        out = [struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 101)]
        start = 1_700_000_000 * 10**9
        for number, (ns, data) in enumerate(sorted(self.packets, key=lambda packet: packet[0])):
            if number not in left_out:
                out.append(struct.pack("<IIII", *divmod(start + ns, 10**9), len(data), len(data)) + data)
        path.write_bytes(b"".join(out))
        return path

    def _at(self, ns: int, kind: str, *values: int) -> None:
        heapq.heappush(self._events, (ns, next(self._numbers), (kind, values)))

    def _at_capture(self, ns: int, side: int) -> int:
        """Return when the capture sees what a side sends, given the time at the client."""
        if self.seen_by == _CLIENT:
            return ns
        return ns + self._half if side == _CLIENT else ns - self._half

    def _add(
        self, client_ns: int, side: int, numbers: tuple[int, int], flags: int, size: int, more: bytes
    ) -> None:
        window = self.window if side == _CLIENT else 65535
        data = segment(side, 40000, numbers, flags, window, size, more)
        self.packets.append((self._at_capture(client_ns, side), data))

    def _stamped(self, value: int, echo: int) -> bytes:
        return struct.pack("!BBBBII", 1, 1, 8, 10, value, echo) if self.stamps else b""

    def _handshake(self) -> None:
        scale = b"" if self.shift is None else bytes([1, 3, 3, self.shift])
        offer = b"\x02\x04\x05\xb4" + scale
        rtt = 2 * self._half
        self._add(0, _CLIENT, (1000, 0), SYN, 0, offer + self._stamped(1, 0))
        self._add(rtt, _SERVER, (5000, 1001), SYN | ACK, 0, offer + self._stamped(1, 1))
        value = _value(rtt)
        self._add(rtt, _CLIENT, (1001, 5001), ACK, 0, self._stamped(value, 1))
        self._add(rtt, _CLIENT, (1001, 5001), ACK | PSH, REQUEST, self._stamped(value, 1))
        self._latest = value

    def _write(self, ns: int, size: int) -> None:
        self._written += size
        self._send(ns)

    def _ack(self, ns: int, acked: int, value: int) -> None:
        self._latest = max(self._latest, value)
        if acked > self._acked:
            self._cwnd = min(self._cwnd + 1, float(self.windows[1]))
            self._acked = acked
            self._edge = acked + (self.window << (self.shift or 0))
        elif self._lost:
            # Duplicates: the first lost segment is sent again, with half the window (RFC 5681 3.2).
            self._transmit(ns, *self._lost.pop(0))
            self._cwnd = max(2.0, self._cwnd / 2)
        self._send(ns)

    def _send(self, ns: int) -> None:
        while self._next < self._written:
            size = min(SEGMENT, self._written - self._next)
            end = self._next + size
            if end > self._edge or end - self._acked > self._cwnd * SEGMENT:
                return
            self._sent += 1
            if self._sent in self.dropped:
                self._lost.append((self._next, size))
            else:
                self._transmit(ns, self._next, size)
            self._next = end

    def _transmit(self, ns: int, first: int, size: int) -> None:
        self._free_ns = max(self._free_ns, ns) + (size + HEADERS) * 8 * 10**9 // self.rate_bps
        self._at(self._free_ns + self._half, "arrive", first, size, self._latest)

    def _arrive(self, ns: int, first: int, size: int, echo: int) -> None:
        full = self._stamped(_value(ns), echo)
        self._add(ns, _SERVER, (5001 + first, 1001 + REQUEST), ACK, size, full)
        self._received.add((first, first + size))
        while follower := next((end for begin, end in self._received if begin == self._contiguous), None):
            self._contiguous = follower
        numbers = (1001 + REQUEST, 5001 + self._contiguous)
        self._add(ns + 1000, _CLIENT, numbers, ACK, 0, self._stamped(_value(ns), _value(ns)))
        self._at(ns + 1000 + self._half, "ack", self._contiguous, _value(ns))


def _value(ns: int) -> int:
    """Return a timestamp value: milliseconds, as Linux sends them."""
    return 1000 + ns // MS
