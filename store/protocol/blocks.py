"""Blocks: rows in columnar form, in the engine's format `Native` and in the wire format."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

from store.protocol.columns import BlockWindow, UnsupportedType, check_type, layout
from store.protocol.wire import ProtocolError, text, varint

MAX_COLUMNS = 10_000

WITH_BLOCK_INFO = 51903
WITH_CUSTOM_SERIALIZATION = 54454

# Field 1: no overflow rows; field 2: no bucket.
_INFO = b"\x01\x00\x02" + struct.pack("<i", -1) + b"\x00"
# A column's kind in the wire format: plain values, not sparse.
_PLAIN = b"\x00"


@dataclass
class NativeBlock:
    """A block. `values` holds the encoded columns, which are equal in both formats; empty without rows."""

    names: list[str] = field(default_factory=list)
    types: list[str] = field(default_factory=list)
    rows: int = 0
    values: list[bytes] = field(default_factory=list)

    def native(self) -> bytes:
        """Encode the block in the format `Native`."""
        return b"".join(self._parts(b""))

    def wire(self, revision: int) -> bytes:
        """Encode the block as the content of a Data packet in this protocol revision."""
        info = _INFO if revision >= WITH_BLOCK_INFO else b""
        return info + b"".join(self._parts(_PLAIN if revision >= WITH_CUSTOM_SERIALIZATION else b""))

    def _parts(self, kind: bytes) -> Iterator[bytes]:
        yield varint(len(self.names)) + varint(self.rows)
        values = self.values or [b""] * len(self.names)
        for name, type_name, value in zip(self.names, self.types, values, strict=True):
            yield text(name) + text(type_name) + kind
            yield value


def read_native(window: BlockWindow, at: int = 0) -> tuple[NativeBlock, int]:
    """Read the block in the format `Native` at `at`; return it and the offset after it."""
    return _read(window, at, kinds=False)


def each_native(data: bytes) -> Iterator[NativeBlock]:
    """Yield all blocks of `data`, which is in the format `Native`."""
    window = BlockWindow(_no_more, data)
    at = 0
    while at < len(window.data):
        block, at = read_native(window, at)
        yield block


def read_wire(window: BlockWindow, revision: int) -> tuple[NativeBlock, int]:
    """Read the block in a Data packet at the start of `window`; return it and the offset after it.

    ProtocolError for invalid data, UnsupportedType if the end of a column cannot be determined.
    """
    at = 0
    while revision >= WITH_BLOCK_INFO:
        number, at = window.varint(at)
        if not number:
            break
        if number > 2:
            raise ProtocolError(f"a block has the unknown field {number}")
        at += 1 if number == 1 else 4
        window.need(at)
    return _read(window, at, kinds=revision >= WITH_CUSTOM_SERIALIZATION)


def _read(window: BlockWindow, at: int, *, kinds: bool) -> tuple[NativeBlock, int]:
    columns, at = window.varint(at)
    if columns > MAX_COLUMNS:
        raise ProtocolError(f"a block has {columns} columns, at most {MAX_COLUMNS} are allowed")
    block = NativeBlock()
    block.rows, at = window.varint(at)
    for _ in range(columns):
        name, at = window.text(at)
        type_name, at = window.text(at)
        try:
            block.names.append(name.decode())
            block.types.append(type_name.decode())
        except UnicodeDecodeError as error:
            raise ProtocolError("the name or type of a column is not UTF-8") from error
        check_type(block.types[-1])
        if kinds:
            kind, at = window.byte(at)
            if kind:
                raise UnsupportedType(f"column {block.names[-1]} has an unsupported serialization")
        if block.rows:
            begin = at
            try:
                of_type = layout(block.types[-1])
                at = of_type.end(window, of_type.prefix_end(window, at), block.rows)
            except (ValueError, StopIteration, RecursionError) as error:
                raise ProtocolError(f"{block.types[-1][:100]!r} is not a type") from error
            block.values.append(bytes(memoryview(window.data)[begin:at]))
    return block, at


def _no_more() -> bytes:
    raise ProtocolError("a block is incomplete")
