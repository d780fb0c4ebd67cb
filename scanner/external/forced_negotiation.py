"""A datagram that every QUIC server answers with Version Negotiation, and the parser of the answers.

The datagram has a long header with a reserved version (RFC 9000 15: 0x?a?a?a?a). No server supports this
version, so no server keeps state or does cryptography. The datagram has 1200 bytes, because servers ignore
smaller ones (RFC 9000 6.1, 14.1). RFC 8999 defines no format after the connection IDs, but some servers
(aioquic) parse this part before they check the version. So it has the form of an Initial packet. Its payload
is text that identifies the sender.
"""

from __future__ import annotations

BYTES = 1200
RESERVED = 0x1A2A3A4A
ID_BYTES = 8


def datagram(source_id: bytes, destination_id: bytes, contact: str) -> bytes:
    """Return the payload. Both connection IDs have 8 bytes. `contact` is text, truncated to fit."""
    ids = bytes([len(destination_id)]) + destination_id + bytes([len(source_id)]) + source_id
    head = b"\xc0" + RESERVED.to_bytes(4) + ids + b"\0"  # no token
    length = BYTES - len(head) - 2
    text = f"firstflight scan, contact: {contact}".encode()[:length]
    return head + (0x4000 | length).to_bytes(2) + text.ljust(length, b"\0")


def versions(answer: bytes, source_id: bytes, destination_id: bytes) -> list[int] | None:
    """Return the versions in a Version Negotiation packet (RFC 8999 6), in the order sent.

    Return `None` for another datagram or without both connection IDs, because anybody may send UDP datagrams.
    """
    ids = bytes([len(source_id)]) + source_id + bytes([len(destination_id)]) + destination_id
    begin = 5 + len(ids)
    listed = answer[begin:]
    if len(answer) < begin or not answer[0] & 0x80 or any(answer[1:5]) or answer[5:begin] != ids:
        return None
    if not listed or len(listed) % 4:
        return None
    return [int.from_bytes(listed[offset : offset + 4]) for offset in range(0, len(listed), 4)]
