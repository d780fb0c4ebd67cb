"""The native protocol's parsers on invalid bytes: they end in time, with one sentence."""

from __future__ import annotations

import random
import struct
import time
import tracemalloc
from collections.abc import Callable

import pytest
import zstd

from store.protocol import compression, packets
from store.protocol.blocks import NativeBlock, each_native, read_wire
from store.protocol.columns import BlockWindow, UnsupportedType, check_type, layout
from store.protocol.wire import Disconnected, ProtocolError, Reader, text, varint

SEED = 20261122
SECONDS = 4.0
EXPECTED = (ProtocolError, UnsupportedType, Disconnected)


def reader(data: bytes) -> Reader:
    pieces = [data, b""]
    return Reader(lambda _: pieces.pop(0) if pieces else b"")


def end_of_stream() -> bytes:
    raise Disconnected


def _query() -> bytes:
    info = b"\x01" + text("") * 3 + b"\x01" + text("") * 3 + varint(1) * 3 + text("") + varint(0)
    setting = text("max_threads") + varint(1) + text("1")
    return text("") + info + setting + text("") + varint(2) + varint(1) + text("SELECT 1")


def _type(name: str) -> object:
    check_type(name)
    return layout(name)


_BLOCK = NativeBlock(
    ["a", "b", "c", "d", "e"],
    [
        "String",
        "Array(Nullable(Int8))",
        "LowCardinality(String)",
        "Tuple(a Int8, b String)",
        "Enum8('x' = 1)",
    ],
    1,
    [
        b"\x02hi",
        struct.pack("<Q", 2) + b"\x00\x01" + b"\x05\x06",
        struct.pack("<QQQ", 1, 0x600, 1) + b"\x01x" + struct.pack("<Q", 1) + b"\x00",
        b"\x07" + b"\x01y",
        b"\x01",
    ],
)
PARSERS: dict[str, tuple[bytes, Callable[[bytes], object]]] = {
    "hello": (
        text("test") + varint(1) * 2 + varint(packets.REVISION) + text("db") + text("user") + text("pw"),
        lambda data: packets.read_hello(reader(data)),
    ),
    "query": (_query(), lambda data: packets.read_query(reader(data), packets.OLDEST)),
    "block": (
        _BLOCK.wire(packets.REVISION),
        lambda data: read_wire(BlockWindow(end_of_stream, data), packets.REVISION),
    ),
    "native": (_BLOCK.native(), lambda data: list(each_native(data))),
    "lz4": (compression.pack(b"x" * 500), lambda data: compression.unpack_frame(reader(data))),
    "zstd": (
        compression.pack(b"x" * 500, compression.ZSTD),
        lambda data: compression.unpack_frame(reader(data)),
    ),
    "type": (
        b"Array(Tuple(a Nullable(DateTime64(9, 'UTC')), b Map(String, Enum8('x' = 1))))",
        lambda data: _type(data.decode("latin-1")),
    ),
}


@pytest.mark.parametrize("name", PARSERS)
def test_complete_messages_are_read(name: str) -> None:
    data, parse = PARSERS[name]
    parse(data)


@pytest.mark.parametrize("name", PARSERS)
def test_changed_ones_end_with_a_sentence(name: str) -> None:
    data, parse = PARSERS[name]
    chance = random.Random(f"{SEED} {name}")
    until = time.monotonic() + SECONDS
    tried = 0
    while tried < 20 or (time.monotonic() < until and tried < 20_000):
        broken = bytearray(data)
        for _ in range(chance.randrange(1, 5)):
            at = chance.randrange(len(broken) or 1)
            kind = chance.randrange(4)
            if kind == 0 and broken:
                broken[at] = chance.randrange(256)
            elif kind == 1:
                broken[at:at] = chance.randbytes(chance.randrange(1, 12))
            elif kind == 2:
                del broken[at : at + chance.randrange(1, 8)]
            else:
                broken[at:at] = broken[at : at + chance.randrange(1, 40)] * chance.randrange(1, 4)
        tried += 1
        try:
            parse(bytes(broken))
        except EXPECTED:
            continue
        except ValueError as error:  # raised by `layout` itself; its callers convert it
            assert name == "type", error
        except (StopIteration, RecursionError):
            assert name == "type"


@pytest.mark.parametrize(
    ("type_name", "message"),
    [
        ("Array(" * 120_000 + "Int8" + ")" * 120_000, "more than 4096 bytes"),
        ("Array(" * 33 + "Int8" + ")" * 33, "more than 32 levels"),
        ("Tuple(" + "a" * 5000 + " Int8)", "more than 4096 bytes"),
        ("DateTime64(3) DEFAULT file('/etc/hostname')", "is not a type"),
        ("Int8 DEFAULT file('/etc/hostname')", "is not a type"),
        ("Int8, b String", "is not a type"),
        ("Array(Int8", "do not match"),
        ("Array(Int8))", "is not a type"),
        ("Int8; DROP TABLE t", "is not a type"),
        ("Int8 -- x", "is not a type"),
    ],
)
def test_only_short_flat_types_are_accepted(type_name: str, message: str) -> None:
    data = varint(1) + varint(0) + text("a") + text(type_name)
    tracemalloc.start()
    began = time.process_time()
    with pytest.raises(ProtocolError, match=message):
        list(each_native(data))
    assert time.process_time() - began < 5
    assert tracemalloc.get_traced_memory()[1] < 16 << 20
    tracemalloc.stop()


def test_types_in_use_pass() -> None:
    for type_name in (
        "Array(" * 31 + "Int8" + ")" * 31, "Enum8('it''s, (odd)' = 1, 'b\\'c)' = -2)",
        "Tuple(`a b` Int8, c DateTime64(9, 'Europe/Berlin'))", "JSON(a.b UInt32, SKIP c)",
        "AggregateFunction(quantiles(0.5, 0.9), Int64)",
        "SimpleAggregateFunction(max, Int64)", "Decimal(38, 10)", "IntervalDay", "Nested(a Int8, b String)",
    ):  # fmt: skip
        check_type(type_name)


def test_a_small_piece_does_not_unpack_to_a_large_one() -> None:
    bomb = zstd.compress(bytes(64 << 20))
    declared = 1000  # bytes in the header
    piece = struct.pack("<BII", compression.ZSTD, 9 + len(bomb), declared) + bomb
    tracemalloc.start()
    with pytest.raises(ProtocolError, match="another length than it declares"):
        compression.unpack_frame(reader(compression._hash(piece) + piece))
    assert tracemalloc.get_traced_memory()[1] < 16 << 20
    tracemalloc.stop()


def test_numbers_without_sense_are_refused_at_once() -> None:
    for data in (
        varint(2**60) + varint(1),  # columns
        varint(1) + varint(2**60) + text("a") + text("Int64"),  # rows
        varint(1) + varint(2**60) + text("a") + text("FixedString(0)"),
        varint(1) + varint(1) + text("a") + text("String") + varint(2**60),
        varint(1) + varint(1) + text("a") + text("Array(Int8)") + struct.pack("<Q", 2**60),
    ):
        with pytest.raises(EXPECTED):
            list(each_native(data))
    settings = b"".join(text(f"s{n}") + varint(0) + text("1") for n in range(1001))
    with pytest.raises(ProtocolError, match="more than 1000 settings"):
        packets.read_query(reader(text("") + b"\x00" + settings), packets.OLDEST)
