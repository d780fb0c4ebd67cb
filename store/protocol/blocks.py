"""Blocks: some rows, column by column, in the engine's format `Native` and as sent on the wire."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

from store.protocol.columns import UnsupportedType, Window, check_type, layout
from store.protocol.wire import ProtocolError, text, varint

MAX_COLUMNS = 10_000

WITH_BLOCK_INFO = 51903
WITH_CUSTOM_SERIALIZATION = 54454

# Field 1: overflow rows, none; field 2: bucket, none.
_INFO = b"\x01\x00\x02" + struct.pack("<i", -1) + b"\x00"
# A column's kind where the wire asks for one: values stand there as they are, none left out.
_PLAIN = b"\x00"


@dataclass
class Block:
    """A block. `values` holds each column as it stands in either form; nothing if there are no rows."""

    names: list[str] = field(default_factory=list)
    types: list[str] = field(default_factory=list)
    rows: int = 0
    values: list[bytes] = field(default_factory=list)

    def native(self) -> bytes:
        """The block in the format `Native`, which `FORMAT Native` reads."""
        return b"".join(self._parts(b""))

    def wire(self, revision: int) -> bytes:
        """The block as a Data packet of that protocol revision holds it."""
        info = _INFO if revision >= WITH_BLOCK_INFO else b""
        return info + b"".join(self._parts(_PLAIN if revision >= WITH_CUSTOM_SERIALIZATION else b""))

    def _parts(self, kind: bytes) -> Iterator[bytes]:
        yield varint(len(self.names)) + varint(self.rows)
        values = self.values or [b""] * len(self.names)
        for name, type_name, value in zip(self.names, self.types, values, strict=True):
            yield text(name) + text(type_name) + kind
            yield value


def read_native(window: Window, at: int = 0) -> tuple[Block, int]:
    """The block in the format `Native` that begins at `at`, and the place after it."""
    return _read(window, at, kinds=False)


def each_native(data: bytes) -> Iterator[Block]:
    """All blocks of a text in the format `Native`."""
    window = Window(_no_more, data)
    at = 0
    while at < len(window.data):
        block, at = read_native(window, at)
        yield block


def read_wire(window: Window, revision: int) -> tuple[Block, int]:
    """The block that `window` begins with, as a Data packet holds it, and the place after it.

    ProtocolError for one that is none, UnsupportedType for one whose columns cannot be told apart.
    """
    at = 0
    while revision >= WITH_BLOCK_INFO:
        number, at = window.varint(at)
        if not number:
            break
        if number > 2:
            raise ProtocolError(f"a block with the unknown field {number}")
        at += 1 if number == 1 else 4
        window.need(at)
    return _read(window, at, kinds=revision >= WITH_CUSTOM_SERIALIZATION)


def _read(window: Window, at: int, *, kinds: bool) -> tuple[Block, int]:
    columns, at = window.varint(at)
    if columns > MAX_COLUMNS:
        raise ProtocolError(f"a block of {columns} columns, where at most {MAX_COLUMNS} are allowed")
    block = Block()
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
                raise UnsupportedType(f"column {block.names[-1]} comes in a form that was not asked for")
        if block.rows:
            begin = at
            try:
                how = layout(block.types[-1])
                at = how.end(window, how.prefix_end(window, at), block.rows)
            except (ValueError, StopIteration, RecursionError) as error:
                raise ProtocolError(f"{block.types[-1][:100]!r} is no type") from error
            block.values.append(bytes(memoryview(window.data)[begin:at]))
    return block, at


def _no_more() -> bytes:
    raise ProtocolError("a block ends in its middle")
