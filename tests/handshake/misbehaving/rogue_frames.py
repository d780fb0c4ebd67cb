"""Frames that a server sends in addition to aioquic's: in Handshake packets after its messages, and in 1-RTT
packets once the handshake is complete.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from aioquic.buffer import encode_uint_var as integer

HEAD_WITHOUT_END = b"\x08\xff\xff\xff"
TICKET = (
    b"\x04\0\0\x1c" + b"\0\0\x0e\x10" + b"abcd" + b"\x01n" + b"\0\x0a" + b"0123456789" + b"\0\x04\0\x99\0\0"
)
# Every byte, terminal control sequences (ECMA-48, UAX 9), line terminators, and characters that JSON escapes.
HOSTILE = bytes(range(256)) + '\x1b]0;t\x07\x1b[2J\r\n\x85\x9b31m\u202e\u2028"\\</script>\0'.encode()

HANDSHAKE_FAILURE = 0x100 + 40
INTERNAL_ERROR = 0x01


def crypto(offset: int, data: bytes) -> bytes:
    """Return a CRYPTO frame."""
    return b"\x06" + integer(offset) + integer(len(data)) + data


def stream(number: int, offset: int, data: bytes) -> bytes:
    """Return a STREAM frame without FIN."""
    return b"\x0e" + integer(number) + integer(offset) + integer(len(data)) + data


def close(code: int, reason: bytes = b"", *, application: bool = False) -> bytes:
    """Return a CONNECTION_CLOSE frame."""
    kind = b"\x1d" + integer(code) if application else b"\x1c" + integer(code) + b"\0"
    return kind + integer(len(reason)) + reason


def endless(head: bytes, size: int) -> Iterator[bytes]:
    """Yield CRYPTO frames with the first `size` bytes of an endless message."""
    content = head + bytes(size - len(head))
    for offset in range(0, size, 1100):
        yield crypto(offset, content[offset : offset + 1100])


def pieces(count: int) -> Iterator[bytes]:
    """Yield one-byte CRYPTO frames with gaps between them, 150 in a packet."""
    for first in range(0, count, 150):
        yield b"".join(crypto(2 * number + 1, b"\0") for number in range(first, first + 150))


def connection_ids(packets: int) -> Iterator[bytes]:
    """Yield NEW_CONNECTION_ID frames, 30 in a packet."""
    for first in range(0, 30 * packets, 30):
        yield b"".join(
            b"\x18" + integer(number) + b"\0\x08" + number.to_bytes(8, "big") + number.to_bytes(16, "big")
            for number in range(first, first + 30)
        )


def retirements(count: int) -> bytes:
    """Return NEW_CONNECTION_ID frames that each retire all earlier connection IDs."""
    return b"".join(
        b"\x18" + integer(number) * 2 + b"\x08" + b"rogue" + number.to_bytes(3, "big") + bytes(16)
        for number in range(2, 2 + count)
    )


# In Handshake packets, after the messages that rogue_tls.py does not suppress.
HANDSHAKE: dict[str, Iterable[bytes]] = {
    "alert-hello": [close(HANDSHAKE_FAILURE)],
    "alert-certificate": [close(HANDSHAKE_FAILURE)],
    "closed-certificate": [close(INTERNAL_ERROR, HOSTILE * 3)],
    "endless-messages": [*endless(HEAD_WITHOUT_END, 200_000)],
    "many-pieces": [*pieces(60_000)],
}

# In 1-RTT packets, before the answer to the request.
COMPLETE: dict[str, Iterable[bytes]] = {
    "done-twice": [b"\x1e\x1e"],
    "ids": [*connection_ids(200)],
    "ids-retired": [retirements(30)],
    "id-never-given": [b"\x19\x01"],
    "challenges-endless": [b"\x1a12345678" * 100] * 100,
    "challenges": [b"\x1a12345678" * 20, b"\x1b12345678", b"\x19\0"],
    "stop-sending": [b"\x05\0" + integer(0x10C)],
    "foreign-reset": [b"\x04\x04" + integer(0x10C) + b"\0"],
    "unknown-frame": [integer(0x52) + b"abcd"],
    "cut-frame": [b"\x06\0\x7f\xffabc"],
    "foreign-stream": [stream(4, 0, b"abc")],
    "streams": [b"".join(stream(3 + 4 * number, 0, b"\x21") for number in range(3, 9))],
    "beyond-credit": [stream(0, 64 << 10, b"abc")],
    "beyond-credit-by-its-end": [b"\x0f\0" + integer(1 << 40) + b"\0"],
    "beyond-numbers": [stream(0, (1 << 62) - 2, b"abc")],
    "ack-of-nothing": [b"\x02" + integer(1 << 30) + b"\0\0\0"],
    "tickets": [*(crypto(len(TICKET) * 25 * n, TICKET * 25) for n in range(200))],
    "alert-late": [close(HANDSHAKE_FAILURE)],
    "closed-late": [close(0x105, HOSTILE, application=True)],
    "endless-late": [*endless(b"\x04\xff\xff\xff", 200_000)],
    "other-message-late": [crypto(0, b"\x63\0\0\x04abcd")],
}
