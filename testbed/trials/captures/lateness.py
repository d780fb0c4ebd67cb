"""The link's lateness: the time between a datagram's arrival and departure, minus the link's delay."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

_NANOSECONDS = 0xA1B23C4D
_FILE_HEADER, _RECORD = 24, struct.Struct("=IIII")
_HEADERS = 14 + 20 + 8
"""Headers of Ethernet, IPv4 and UDP. For TCP, the part of the header that differs between packets follows."""
_SAME = slice(64)
"""The part of a payload that identifies a datagram: packet protection makes it unique."""


class Lateness:
    """Datagrams that entered the link, in order of time, each with its lateness in ns."""

    def __init__(self, came_in: Path, came_out: Path, delay_ms: float) -> None:
        """Read two captures with nanoseconds, as the guest's tcpdump writes them."""
        out: dict[bytes, int] = {}
        for time_ns, payload in datagrams(came_out):
            out.setdefault(payload, time_ns)
        delay_ns = round(delay_ms * 1e6)
        # Identical retransmissions (of a server's first flight, for example) count once.
        pairs = {payload: time_ns for time_ns, payload in reversed(list(datagrams(came_in)))}
        self._late = [
            (time_ns, out[payload] - time_ns - delay_ns)
            for payload, time_ns in pairs.items()
            if payload in out
        ]

    def p99_us(self, begun_ns: int, ended_ns: int) -> int | None:
        """Return the floored 99th percentile over datagrams that entered in this period, or `None`."""
        late = sorted(late for time_ns, late in self._late if begun_ns <= time_ns <= ended_ns)
        return late[(len(late) - 1) * 99 // 100] // 1000 if late else None


def datagrams(file: Path, part: slice = _SAME) -> Iterator[tuple[int, bytes]]:
    """Yield the time and a part of the payload of each datagram; skip a truncated last record."""
    content = file.read_bytes()
    if content[:4] != struct.pack("=I", _NANOSECONDS):
        return
    at = _FILE_HEADER
    while at + _RECORD.size <= len(content):
        seconds, nanoseconds, size, _ = _RECORD.unpack_from(content, at)
        at += _RECORD.size
        if at + size > len(content):
            return
        yield (
            seconds * 1_000_000_000 + nanoseconds,
            content[at + _HEADERS : at + size][part],
        )
        at += size
