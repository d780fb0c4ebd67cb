"""Whether a server's first flight exceeds the limit of RFC 9000, section 8.1: three times the ClientHello.

Only datagrams with new CRYPTO bytes count. Retransmissions and datagrams that clients send while they wait
do not affect the result.
"""

from __future__ import annotations

from collections.abc import Iterable

from testbed.trials.captures.packets import Packet, crypto_bytes

TIMES = 3


def is_over(packets: Iterable[Packet]) -> bool | None:
    """Return whether the server's flight exceeds the limit before the client's answer.

    `None` if a side's flight is missing. `packets`: the packets in a connection without loss, in order.
    """
    seen: dict[tuple[bool, str], set[int]] = {}
    datagrams: dict[bool, dict[int, int]] = {True: {}, False: {}}
    for packet in packets:
        from_client, kind = packet["from_client"], packet["type"]
        # The client's Handshake packets are its answer; the server's 1-RTT packets are tickets.
        if kind not in ("initial", "handshake") or (from_client and kind == "handshake"):
            continue
        bytes_there = seen.setdefault((from_client, kind), set())
        before = len(bytes_there)
        bytes_there.update(crypto_bytes(packet["frames"]))
        if len(bytes_there) > before:
            datagrams[from_client][packet["frame_number"]] = packet["datagram_size"]
    if not datagrams[True] or (False, "handshake") not in seen:
        return None
    return sum(datagrams[False].values()) > TIMES * sum(datagrams[True].values())
