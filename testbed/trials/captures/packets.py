"""The connection and the frames of quic_packet rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

Packet = dict[str, Any]
"""A row of quic_packet."""


_SILENT = {"ack", "padding", "connection_close", "application_close"}
"""Frames that elicit no ACK (RFC 9000, 13.2), as quic_packet names them."""


def by_connection(packets: Iterable[Packet]) -> list[list[Packet]]:
    """Return the packets of each connection in a capture, in the capture's order."""
    connections: dict[tuple[Any, ...], list[Packet]] = {}
    for packet in packets:
        key = (packet["client_ip"], packet["client_port"], packet["odcid"])
        connections.setdefault(key, []).append(packet)
    return list(connections.values())


def crypto_bytes(frames: str | None) -> Iterator[int]:
    """Return the offsets of handshake bytes that a packet's frames bring, as quic_packet names them."""
    for frame in (frames or "").split("; "):
        kind, _, place = frame.partition(" ")
        if kind == "crypto":
            start, length = map(int, place.split("+"))
            yield from range(start, start + length)


def has_stream(frames: str | None) -> bool:
    """Return whether a STREAM frame is among a packet's frames, as quic_packet names them."""
    return any(frame.split()[:1] == ["stream"] for frame in (frames or "").split("; "))


def is_eliciting(frames: str | None) -> bool:
    """Return whether a packet with these frames, as quic_packet names them, elicits an ACK (RFC 9002, 2)."""
    return not {frame.split()[0] for frame in (frames or "").split("; ") if frame} <= _SILENT
