"""Frames of compressed blocks: hash, method, sizes, content.

A frame has the CityHash (version 1.0.2, 128 bits) of the rest; the method; the length of the frame from the
method on; the length of the uncompressed content; the compressed content.
"""

from __future__ import annotations

import struct

import lz4.block
import zstd
from clickhouse_cityhash.cityhash import CityHash128

from store.protocol.wire import ProtocolError, Reader

LZ4, ZSTD, STORED = 0x82, 0x90, 0x02
_HEAD = struct.Struct("<BII")
_MAX_BYTES = 1 << 28
_PIECE = 1 << 20
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


def pack(content: bytes, method: int = LZ4) -> bytes:
    """Compress `content` into a sequence of frames."""
    pieces = []
    for begin in range(0, len(content) or 1, _PIECE):
        plain = content[begin : begin + _PIECE]
        packed = lz4.block.compress(plain, store_size=False) if method == LZ4 else zstd.compress(plain)
        piece = _HEAD.pack(method, _HEAD.size + len(packed), len(plain)) + packed
        pieces.append(_hash(piece) + piece)
    return b"".join(pieces)


def unpack_frame(reader: Reader) -> bytes:
    """Return the content of the next frame; ProtocolError if it is damaged."""
    given, head = reader.take(16), reader.take(_HEAD.size)
    method, size, plain_size = _HEAD.unpack(head)
    if not _HEAD.size <= size <= _MAX_BYTES or plain_size > _MAX_BYTES:
        raise ProtocolError("a compressed frame has an impossible length")
    packed = reader.take(size - _HEAD.size)
    if _hash(head + packed) != given:
        raise ProtocolError("the hash of a compressed frame does not match its content")
    try:
        if method == LZ4:
            plain = bytes(lz4.block.decompress(packed, uncompressed_size=plain_size))
        elif method == ZSTD:
            if _zstd_size(packed) != plain_size:  # checked before decompression allocates memory
                raise ProtocolError("a compressed frame has another length than it declares")
            plain = bytes(zstd.decompress(packed))
        elif method == STORED:
            plain = packed
        else:
            raise ProtocolError(f"a frame is compressed by the unknown method {method:#x}")
    except (lz4.block.LZ4BlockError, zstd.Error, ValueError) as error:
        raise ProtocolError("a compressed frame cannot be decompressed") from error
    if len(plain) != plain_size:
        raise ProtocolError("a compressed frame has another length than it declares")
    return plain


def _zstd_size(packed: bytes) -> int | None:
    """Return the content size that a Zstandard frame declares (RFC 8878, 3.1.1.1), or `None`."""
    if packed[:4] != _ZSTD_MAGIC or len(packed) < 5:
        return None
    descriptor = packed[4]
    single, kind = descriptor >> 5 & 1, descriptor >> 6
    width = (single, 2, 4, 8)[kind]
    begin = 5 + (not single) + (0, 1, 2, 4)[descriptor & 3]
    if not width or len(packed) < begin + width:
        return None
    return int.from_bytes(packed[begin : begin + width], "little") + (256 if width == 2 else 0)


def _hash(piece: bytes) -> bytes:
    number = CityHash128(piece)
    return struct.pack("<QQ", number >> 64, number & 0xFFFF_FFFF_FFFF_FFFF)
