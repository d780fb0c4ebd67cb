"""The datagrams in a client's second flight: from its first Handshake packet to its first STREAM frame.

They are identified by content, because stacks and versions divide flights differently (paper 000, Table 4,
counts datagrams).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from testbed.trials.captures.packets import Packet, by_connection, has_stream


def indices(packets: Iterable[Packet]) -> tuple[int, ...]:
    """Return the numbers of the client's datagrams in its second flight, counted from 1.

    `packets`: rows of quic_packet, in capture order. Empty if the client sent no Handshake packet. Without a
    STREAM frame, the flight extends to the client's last datagram.
    """
    first = number = 0
    frame: int | None = None
    for packet in packets:
        if not packet["from_client"]:
            continue
        if packet["frame_number"] != frame:
            number, frame = number + 1, packet["frame_number"]
        if packet["type"] == "handshake" and not first:
            first = number
        if first and has_stream(packet["frames"]):
            break
    return tuple(range(first, number + 1)) if first else ()


def most_frequent(packets: Iterable[Packet]) -> tuple[int, ...]:
    """Return the most frequent `indices` among a capture's connections; on a tie, the first."""
    counted = Counter(map(indices, by_connection(packets))).most_common(1)
    return counted[0][0] if counted else ()
