"""The datagram that any QUIC server answers by Version Negotiation, and the answers to it.

A long header of a reserved version (RFC 9000 15: 0x?a?a?a?a), which no server supports, so none keeps state
or does cryptography for it. 1200 bytes, because servers ignore less (RFC 9000 6.1, 14.1). RFC 8999 leaves
what follows the connection IDs to the version; some servers (aioquic) parse it before they look at the
version, so it has the form of an Initial packet, whose payload is text that says who asks.
"""

from __future__ import annotations

BYTES = 1200
RESERVED = 0x1A2A3A4A
ID_BYTES = 8


def datagram(source_id: bytes, destination_id: bytes, contact: str) -> bytes:
    """Return the payload; both connection IDs of 8 bytes, `contact` as text, cut where the datagram ends."""
    ids = bytes([len(destination_id)]) + destination_id + bytes([len(source_id)]) + source_id
    head = b"\xc0" + RESERVED.to_bytes(4) + ids + b"\0"  # no token
    length = BYTES - len(head) - 2
    text = f"firstflight scan, contact: {contact}".encode()[:length]
    return head + (0x4000 | length).to_bytes(2) + text.ljust(length, b"\0")


def versions(answer: bytes, source_id: bytes, destination_id: bytes) -> list[int] | None:
    """Return the versions of a Version Negotiation packet (RFC 8999 6) in the order sent.

    None if the datagram is none, or does not return both connection IDs: anybody may send UDP datagrams.
    """
    ids = bytes([len(source_id)]) + source_id + bytes([len(destination_id)]) + destination_id
    begin = 5 + len(ids)
    listed = answer[begin:]
    if len(answer) < begin or not answer[0] & 0x80 or any(answer[1:5]) or answer[5:begin] != ids:
        return None
    if not listed or len(listed) % 4:
        return None
    return [int.from_bytes(listed[place : place + 4]) for place in range(0, len(listed), 4)]
