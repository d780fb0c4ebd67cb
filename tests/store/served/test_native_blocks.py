"""Splitting and joining native blocks of all types gives the engine's bytes."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from store.engine.session import EngineSession
from store.protocol import compression
from store.protocol.blocks import NativeBlock, each_native, read_native, read_wire
from store.protocol.columns import BlockWindow, UnsupportedType, layout
from store.protocol.wire import Disconnected, ProtocolError, Reader, unpack_varint, varint
from store.sql import literal

TYPES = [
    "UInt8", "Int256", "Float64", "Bool", "String", "FixedString(5)", "Date32", "DateTime64(9, 'UTC')",
    "UUID", "IPv6", "Decimal(38, 4)", "Enum16('a, (b' = 1, 'it\\'s' = 2)", "Nullable(String)",
    "LowCardinality(String)", "LowCardinality(Nullable(String))", "Array(Nullable(Int16))",
    "Array(Array(LowCardinality(String)))", "Map(String, Array(Int8))",
    "Tuple(a Int8, `odd, (name` Nullable(String), c Array(Tuple(Int32, String)))",
    "Nullable(DateTime64(3))", "Array(Map(LowCardinality(String), Nullable(UUID)))", "Polygon", "IPv4",
]  # fmt: skip


@pytest.fixture(scope="module")
def engine() -> Iterator[EngineSession]:
    found = EngineSession()
    found.set({"print_pretty_type_names": 0})
    yield found
    found.close()


def random_rows(engine: EngineSession, rows: int, seed: int) -> bytes:
    structure = ", ".join(f"`c {n}` {type_name}" for n, type_name in enumerate(TYPES))
    source = f"generateRandom({literal(structure)}, {seed}, 30, 4)"
    return engine.run(f"SELECT * FROM {source} LIMIT {rows} SETTINGS max_threads = 1", "Native")


@pytest.mark.parametrize("rows", [1, 7, 1000])
def test_blocks_of_the_engine_are_written_back_identically(engine: EngineSession, rows: int) -> None:
    written = random_rows(engine, rows, seed=rows)
    blocks = list(each_native(written))
    assert sum(block.rows for block in blocks) == rows
    assert b"".join(block.native() for block in blocks) == written
    assert blocks[0].names[3] == "c 3"
    for revision in (50000, 54429, 54453, 54454, 54468):
        wire = blocks[0].wire(revision)
        read, end = read_wire(BlockWindow(_nothing_more, wire), revision)
        assert (read, end) == (blocks[0], len(wire))


def test_a_block_that_arrives_in_small_pieces(engine: EngineSession) -> None:
    written = random_rows(engine, 20, seed=3)
    sizes = random.Random(3)
    left = [written]

    def more() -> bytes:
        size = sizes.randrange(1, 9)
        piece, left[0] = left[0][:size], left[0][size:]
        return piece

    block, end = read_native(BlockWindow(more))
    assert block.native() == written[:end] == written


def test_a_block_that_ends_too_early(engine: EngineSession) -> None:
    written = random_rows(engine, 5, seed=5)
    for length in range(0, len(written) - 1, 7):
        with pytest.raises(ProtocolError, match="a block is incomplete"):
            read_native(BlockWindow(_nothing_more, written[:length]))


@pytest.mark.parametrize(
    "name",
    ["AggregateFunction(uniq, Int8)", "Variant(Int8, String)", "Dynamic", "Nonsense", "", "Array(", "Array"],
)
def test_types_of_unknown_length_are_named(name: str) -> None:
    with pytest.raises(UnsupportedType, match="cannot be sent by this protocol"):
        layout(name)


def test_a_sparse_column_is_refused() -> None:
    wire = bytearray(NativeBlock(["a"], ["Int8"], 1, [b"\x05"]).wire(54468))
    wire[-2] = 1
    with pytest.raises(UnsupportedType, match="column a has an unsupported serialization"):
        read_wire(BlockWindow(_nothing_more, bytes(wire)), 54468)


@pytest.mark.parametrize("method", [compression.LZ4, compression.ZSTD])
def test_pieces_are_packed_and_checked(method: int) -> None:
    content = random.Random(1).randbytes(3_000_000) + bytes(100_000)
    packed = compression.pack(content, method)
    reader = _reader(packed)
    found = b""
    while len(found) < len(content):
        found += compression.unpack_frame(reader)
    assert found == content
    for place in (0, 16, 17, 21, 40):
        broken = bytearray(packed)
        broken[place] ^= 1
        with pytest.raises((ProtocolError, Disconnected)):
            compression.unpack_frame(_reader(bytes(broken)))


def test_integers() -> None:
    for number in (0, 1, 127, 128, 300, 2**32, 2**64 - 1):
        assert unpack_varint(varint(number), 0) == (number, len(varint(number)))
        assert _reader(varint(number)).varint() == number


def _reader(data: bytes) -> Reader:
    left = [data]

    def receive(size: int) -> bytes:
        piece, left[0] = left[0][:size], left[0][size:]
        return piece

    return Reader(receive)


def _nothing_more() -> bytes:
    raise ProtocolError("a block is incomplete")
