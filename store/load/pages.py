"""Walks the pages in a Parquet file. It reads their headers and decodes no page.

Readers do not check the sizes in a file's footer. A page's header has the size that a reader allocates
for the page, so the walk estimates the cost of decoding in advance (Apache Parquet, parquet.thrift,
PageHeader; Thrift compact protocol).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

DICTIONARY = 2
DATA = (0, 3)
"""Types of pages: DICTIONARY_PAGE; DATA_PAGE and DATA_PAGE_V2."""

_HEADER_BYTES = (1 << 10, 1 << 20)
_MAX_DEPTH = 8
_STOP, _TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _STRUCT = 0, 1, 2, 3, 7, 8, 12
_INTEGERS = (4, 5, 6)


@dataclass(frozen=True)
class ParquetPage:
    """One page: the type, bytes after decompression, number of values, and encoding of the values."""

    type: int
    size: int
    values: int
    encoding: int


class _PartialHeader(Exception):
    """The header continues after the bytes that were read."""


def of_chunk(file: int, start: int, values: int) -> Iterator[ParquetPage]:
    """Yield the pages in a column chunk of `values` values that starts at byte `start` of an open file.

    Like a reader, it continues until the pages have all values. ValueError if there is no page header.
    """
    seen = 0
    while seen < values:
        header, length = _header(file, start)
        kind, size, compressed = (header.get(name) for name in (1, 2, 3))
        if not (isinstance(kind, int) and isinstance(size, int) and isinstance(compressed, int)):
            raise ValueError(f"there is no page header at byte {start}")
        if size < 0 or compressed < 0:
            raise ValueError(f"the page at byte {start} has a negative size")
        start += length + compressed
        inner = header.get({0: 5, DICTIONARY: 7, 3: 8}.get(kind, -1), {})
        count, encoding = inner.get(1, 0), inner.get(4 if kind == 3 else 2, 0)
        if kind in DATA:
            if not isinstance(count, int) or count < 0:
                raise ValueError(f"the page before byte {start} has no number of values")
            seen += count
        yield ParquetPage(kind, size, count, encoding)


def _header(file: int, start: int) -> tuple[dict[int, Any], int]:
    """Return the fields of the page header at `start`, by number, and the length in bytes."""
    for size in _HEADER_BYTES:
        data = os.pread(file, size, start)
        try:
            return _struct(data, 0, 0)
        except _PartialHeader:
            if len(data) < size:
                break
    raise ValueError(f"there is no whole page header at byte {start}")


def _struct(data: bytes, at: int, depth: int) -> tuple[dict[int, Any], int]:
    if depth > _MAX_DEPTH:
        raise ValueError("a page header is nested too deeply")
    fields: dict[int, Any] = {}
    number = 0
    while True:
        first, at = _byte(data, at)
        kind = first & 0x0F
        if kind == _STOP:
            return fields, at
        if first >> 4:
            number += first >> 4
        else:
            number, at = _zigzag(data, at)
        fields[number], at = _value(data, at, kind, depth)


def _value(data: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind in (_TRUE, _FALSE):
        return kind == _TRUE, at
    if kind == _BYTE:
        return _byte(data, at)
    if kind in _INTEGERS:
        return _zigzag(data, at)
    if kind == _DOUBLE:
        return None, _checked_end(data, at + 8)
    if kind == _BINARY:
        length, at = _varint(data, at)
        return None, _checked_end(data, at + length)
    if kind == _STRUCT:
        return _struct(data, at, depth + 1)
    # Lists, sets and maps are in no page header.
    raise ValueError(f"a page header has a field of type {kind}")


def _byte(data: bytes, at: int) -> tuple[int, int]:
    _checked_end(data, at + 1)
    return data[at], at + 1


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte, at = _byte(data, at)
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ValueError("a number of a page header is too long")


def _zigzag(data: bytes, at: int) -> tuple[int, int]:
    value, at = _varint(data, at)
    return (value >> 1) ^ -(value & 1), at


def _checked_end(data: bytes, end: int) -> int:
    if end > len(data):
        raise _PartialHeader
    return end
