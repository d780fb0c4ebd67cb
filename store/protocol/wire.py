"""Elements of ClickHouse's native protocol: LEB128 integers, texts, little-endian numbers."""

from __future__ import annotations

import struct
from collections.abc import Callable

MAX_TEXT = 1 << 20
_VARINT_BYTES = 10  # of a 64-bit number


class ProtocolError(Exception):
    """The received data is not ClickHouse's native protocol; the connection cannot be used any more."""


class Disconnected(Exception):
    """The peer has closed the connection."""


def varint(number: int) -> bytes:
    """Encode `number` (0 to 2^64 - 1) as a LEB128 integer."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def text(value: str | bytes) -> bytes:
    """Encode a text: the length, then the bytes."""
    raw = value.encode() if isinstance(value, str) else value
    return varint(len(raw)) + raw


def unpack_varint(data: bytes | bytearray, at: int) -> tuple[int, int]:
    """Decode the integer at `at`; return it and the offset after it. IndexError if `data` is too short."""
    number = 0
    for index in range(_VARINT_BYTES):
        byte = data[at + index]
        number |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return number, at + index + 1
    raise ProtocolError("an integer is longer than 64 bits")


class Reader:
    """Reads elements from a stream of bytes.

    `receive(n)` returns at least one and at most n bytes, or no bytes at the end of the stream.
    """

    def __init__(self, receive: Callable[[int], bytes]) -> None:
        self._receive = receive
        self._data = b""
        self._at = 0

    @property
    def buffered(self) -> bool:
        """Whether received bytes are not yet read."""
        return self._at < len(self._data)

    def some(self) -> bytes:
        """Return the buffered bytes, or else the next ones; Disconnected at the end of the stream."""
        if not self.buffered:
            self._refill()
        rest, self._data, self._at = self._data[self._at :], b"", 0
        return rest

    def put_back(self, data: bytes) -> None:
        """Put back `data`, to be read again."""
        self._data, self._at = data + self._data[self._at :], 0

    def take(self, size: int) -> bytes:
        """Read exactly `size` bytes; Disconnected if the stream is shorter."""
        if len(self._data) - self._at >= size:
            self._at += size
            return self._data[self._at - size : self._at]
        parts = [self._data[self._at :]]
        missing = size - len(parts[0])
        self._data, self._at = b"", 0
        while missing > 0:
            self._refill()
            parts.append(self._data[:missing])
            self._at = len(parts[-1])
            missing -= self._at
        return b"".join(parts)

    def byte(self) -> int:
        """Read one byte."""
        return self.take(1)[0]

    def varint(self) -> int:
        """Read a LEB128 integer; ProtocolError if it has more than 64 bits."""
        number = 0
        for index in range(_VARINT_BYTES):
            byte = self.byte()
            number |= (byte & 0x7F) << 7 * index
            if byte < 0x80:
                return number
        raise ProtocolError("an integer is longer than 64 bits")

    def uint32(self) -> int:
        """Read a little-endian integer of 32 bits."""
        return int(struct.unpack("<I", self.take(4))[0])

    def text(self, limit: int = MAX_TEXT) -> str:
        """Read a text; ProtocolError if it is longer than `limit` bytes or not UTF-8."""
        length = self.varint()
        if length > limit:
            raise ProtocolError(f"a text has {length} bytes, at most {limit} are allowed")
        try:
            return self.take(length).decode()
        except UnicodeDecodeError as error:
            raise ProtocolError("a text is not UTF-8") from error

    def _refill(self) -> None:
        self._data, self._at = self._receive(1 << 16), 0
        if not self._data:
            raise Disconnected
