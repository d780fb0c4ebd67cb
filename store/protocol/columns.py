"""Finds the end of a block's columns, from the lengths that ClickHouse's types imply.

From protocol revision 54454 on, the wire format has a byte between the type of a column and its values; the
format `Native`, which the engine reads and writes, does not. To insert or remove that byte, only the end of
each column is needed: this module decodes no values, so the engine's bytes pass unchanged.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from functools import lru_cache

from store.protocol.wire import ProtocolError, unpack_varint

MAX_BLOCK_BYTES = 1 << 28
MAX_TYPE_BYTES = 4096
MAX_TYPE_DEPTH = 32

_WIDTHS = {
    "Int8": 1, "UInt8": 1, "Bool": 1, "Enum8": 1, "Nothing": 1,
    "Int16": 2, "UInt16": 2, "Enum16": 2, "Date": 2, "BFloat16": 2,
    "Int32": 4, "UInt32": 4, "Float32": 4, "DateTime": 4, "Date32": 4, "IPv4": 4, "Decimal32": 4, "Time": 4,
    "Int64": 8, "UInt64": 8, "Float64": 8, "DateTime64": 8, "Decimal64": 8, "Time64": 8,
    "Int128": 16, "UInt128": 16, "UUID": 16, "IPv6": 16, "Decimal128": 16,
    "Int256": 32, "UInt256": 32, "Decimal256": 32,
}  # fmt: skip
_ALIASES = {
    "Point": "Tuple(Float64, Float64)",
    "Ring": "Array(Point)",
    "LineString": "Array(Point)",
    "MultiLineString": "Array(LineString)",
    "Polygon": "Array(Ring)",
    "MultiPolygon": "Array(Polygon)",
}
# Quoted texts, brackets, other valid parts of a type, and invalid characters.
_TYPE_PARTS = re.compile(
    r"'(?:[^'\\]|\\.|'')*'|`(?:[^`\\]|\\.)*`|(?P<bracket>[()])|[\w\s,=.*+-]+|(?P<other>.)", re.DOTALL
)
_ELEMENT_NAME = re.compile(r"(`(?:[^`\\]|\\.)*`|\w+)\s+")
_DICTIONARY_IN_BLOCK = 1 << 9
_JSON_AS_TEXT = 1


class UnsupportedType(Exception):
    """A type with values that cannot be passed on, because only the engine can determine their length."""


class BlockWindow:
    """A block's received bytes; `more` returns further ones, or raises."""

    def __init__(self, more: Callable[[], bytes], data: bytes = b"") -> None:
        self._more = more
        self.data = bytearray(data)

    def need(self, end: int) -> None:
        """Wait until `end` bytes are available."""
        if end > MAX_BLOCK_BYTES:
            raise ProtocolError(f"a block has more than {MAX_BLOCK_BYTES} bytes")
        while len(self.data) < end:
            self.data += self._more()

    def byte(self, at: int) -> tuple[int, int]:
        """Return the byte at `at`, and the offset after it."""
        self.need(at + 1)
        return self.data[at], at + 1

    def uint64(self, at: int) -> tuple[int, int]:
        """Return the little-endian integer at `at`, and the offset after it."""
        self.need(at + 8)
        return int(struct.unpack_from("<Q", self.data, at)[0]), at + 8

    def varint(self, at: int) -> tuple[int, int]:
        """Return the LEB128 integer at `at`, and the offset after it."""
        while True:
            try:
                return unpack_varint(self.data, at)
            except IndexError:
                self.need(len(self.data) + 1)

    def text(self, at: int) -> tuple[bytes, int]:
        """Return the text at `at`, and the offset after it."""
        length, at = self.varint(at)
        self.need(at + length)
        return bytes(self.data[at : at + length]), at + length


class Layout:
    """The layout of a type's values in a block: a prefix once per block, then the values of all rows."""

    def prefix_end(self, window: BlockWindow, at: int) -> int:  # noqa: ARG002
        """Return the offset after the prefix at `at`."""
        return at

    def end(self, window: BlockWindow, at: int, rows: int) -> int:
        """Return the offset after the values of `rows` rows, which start at `at`."""
        raise NotImplementedError


class _Fixed(Layout):
    def __init__(self, width: int) -> None:
        self._width = width

    def end(self, window: BlockWindow, at: int, rows: int) -> int:
        window.need(at + self._width * rows)
        return at + self._width * rows


class _Texts(Layout):
    def end(self, window: BlockWindow, at: int, rows: int) -> int:
        done = 0
        data = window.data
        while done < rows:
            try:
                # Reading a block spends most of the time here.
                for done in range(done, rows):  # noqa: B007, B020
                    length = data[at]
                    if length < 0x80:
                        at += length + 1
                    else:
                        length, after = unpack_varint(data, at)
                        at = after + length
                done = rows
            except IndexError:
                window.need(max(at, len(data)) + 1)
        window.need(at)
        return at


class _Json(_Texts):
    def prefix_end(self, window: BlockWindow, at: int) -> int:
        version, at = window.uint64(at)
        if version != _JSON_AS_TEXT:
            raise UnsupportedType("JSON is sent as text: set output_format_native_write_json_as_string")
        return at


class _Nullable(Layout):
    def __init__(self, inner: Layout) -> None:
        self._inner = inner

    def prefix_end(self, window: BlockWindow, at: int) -> int:
        return self._inner.prefix_end(window, at)

    def end(self, window: BlockWindow, at: int, rows: int) -> int:
        return self._inner.end(window, at + rows, rows)


class _Array(Layout):
    def __init__(self, inner: Layout) -> None:
        self._inner = inner

    def prefix_end(self, window: BlockWindow, at: int) -> int:
        return self._inner.prefix_end(window, at)

    def end(self, window: BlockWindow, at: int, rows: int) -> int:
        if not rows:
            return at
        inner_rows, at = window.uint64(at + 8 * (rows - 1))
        return self._inner.end(window, at, inner_rows)


class _Tuple(Layout):
    def __init__(self, elements: list[Layout]) -> None:
        self._elements = elements

    def prefix_end(self, window: BlockWindow, at: int) -> int:
        for element in self._elements:
            at = element.prefix_end(window, at)
        return at

    def end(self, window: BlockWindow, at: int, rows: int) -> int:
        for element in self._elements:
            at = element.end(window, at, rows)
        return at


class _LowCardinality(Layout):
    """A dictionary of the values that occur, then for each row its index in the dictionary."""

    def __init__(self, inner: Layout) -> None:
        self._inner = inner

    def prefix_end(self, window: BlockWindow, at: int) -> int:
        return window.uint64(at)[1]

    def end(self, window: BlockWindow, at: int, rows: int) -> int:
        while rows > 0:
            kind, at = window.uint64(at)
            if not kind & _DICTIONARY_IN_BLOCK or kind & 0xFF > 3:
                raise ProtocolError("a LowCardinality column has no dictionary in its block")
            values, at = window.uint64(at)
            at = self._inner.end(window, at, values)
            keys, at = window.uint64(at)
            if not 0 < keys <= rows:
                raise ProtocolError("a LowCardinality column has another number of rows than its block")
            at += keys << (kind & 0xFF)
            window.need(at)
            rows -= keys
        return at


def check_type(type_name: str) -> None:
    """Raise ProtocolError for a type that is too long, nests too deep, or continues after its brackets.

    A checked type is safe in a column's declaration: nothing can follow it.
    """
    if len(type_name.encode()) > MAX_TYPE_BYTES:
        raise ProtocolError(f"the name of a type has more than {MAX_TYPE_BYTES} bytes")
    depth, ended = 0, False
    for part in _TYPE_PARTS.finditer(type_name.strip()):
        if ended or part["other"] or (not depth and not part["bracket"] and not part[0].isidentifier()):
            raise ProtocolError(f"{type_name[:100]!r} is not a type")
        if part["bracket"] == "(":
            depth += 1
            if depth > MAX_TYPE_DEPTH:
                raise ProtocolError(f"a type has more than {MAX_TYPE_DEPTH} levels")
        elif part["bracket"] == ")":
            depth -= 1
            ended = depth <= 0
    if depth:
        raise ProtocolError(f"the brackets of the type {type_name[:100]!r} do not match")


@lru_cache(maxsize=1024)
def layout(type_name: str) -> Layout:
    """Return a ClickHouse type's layout; UnsupportedType if it is unknown."""
    name, _, rest = type_name.strip().partition("(")
    name = name.strip()
    arguments = _arguments(rest[: rest.rindex(")")]) if ")" in rest else []
    if name in _ALIASES:
        return layout(_ALIASES[name])
    if name in _WIDTHS:
        return _Fixed(_WIDTHS[name])
    if name.startswith("Interval"):
        return _Fixed(8)
    if name == "FixedString" and arguments and arguments[0].isdigit() and int(arguments[0]):
        return _Fixed(int(arguments[0]))
    if name == "Decimal" and arguments and arguments[0].isdigit():
        limits = ((9, 4), (18, 8), (38, 16), (76, 32))
        return _Fixed(next(width for limit, width in limits if int(arguments[0]) <= limit))
    if name == "String":
        return _Texts()
    if name == "JSON":
        return _Json()
    inner = [_without_name(argument) if name in ("Tuple", "Nested") else argument for argument in arguments]
    if name == "Nullable" and inner:
        return _Nullable(layout(inner[0]))
    if name == "Array" and inner:
        return _Array(layout(inner[0]))
    if name == "Tuple" and inner:
        return _Tuple([layout(element) for element in inner])
    if name == "Nested" and inner:
        return _Array(_Tuple([layout(element) for element in inner]))
    if name == "Map" and len(inner) == 2:
        return _Array(_Tuple([layout(inner[0]), layout(inner[1])]))
    if name == "LowCardinality" and inner:
        # The dictionary has no null map; null is its first value.
        value = inner[0].strip()
        return _LowCardinality(layout(value[9:-1] if value.startswith("Nullable(") else value))
    if name == "SimpleAggregateFunction" and len(inner) >= 2:
        return layout(inner[-1])
    raise UnsupportedType(f"values of type {type_name} cannot be sent by this protocol: select them as text")


def _arguments(text: str) -> list[str]:
    """Split at the commas outside brackets and quotes."""
    arguments, depth, begin, quote, skip = [], 0, 0, "", False
    for at, character in enumerate(text):
        if skip:
            skip = False
        elif quote:
            skip = character == "\\"
            quote = "" if character == quote else quote
        elif character in "'`":
            quote = character
        elif character == "(":
            depth += 1
        elif character == ")":
            depth -= 1
        elif character == "," and not depth:
            arguments.append(text[begin:at].strip())
            begin = at + 1
    last = text[begin:].strip()
    return [*arguments, last] if last else arguments


def _without_name(element: str) -> str:
    """Return the type of a tuple's element, without its optional name."""
    match = _ELEMENT_NAME.match(element)
    return element[match.end() :] if match else element
