"""Record files of kilobytes that stand for gigabytes: refused before they are decoded, in little memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firstflight.errors import InputError
from schemas import records
from store.load import cost, record_file
from store.load.record_file import RecordFile
from tests.store.rows import answer, many, probe, write

ROWS = 60_000
SCHEMA = records.load("quic_probe").arrow_schema()
# A batch from a real file needs far less memory.
MEMORY_BYTES = 300 << 20


def _repeated(row: dict[str, object], kind: str, count: int) -> pa.Table:
    table = pa.Table.from_pylist([row], schema=records.load(kind).arrow_schema())
    columns = [pa.repeat(column[0], count) for column in table.columns]
    return pa.Table.from_arrays(columns, schema=table.schema)


def _with(table: pa.Table, column: str, values: pa.Array) -> pa.Table:
    return table.set_column(table.schema.get_field_index(column), column, values)


def _long_value(path: Path) -> None:
    """One dictionary value of 1 MB in 60,000 rows, as it was tried."""
    text = pa.DictionaryArray.from_arrays(
        pa.repeat(pa.scalar(0, pa.int32()), ROWS), pa.array(["x" * 1_000_000])
    )
    pq.write_table(_with(_repeated(probe(), "quic_probe", ROWS), "detail", text), path, compression="zstd")


def _prefixes(path: Path) -> None:
    """Each value is the one before it and nothing more."""
    table = _repeated(probe(), "quic_probe", 1_000)
    table = _with(table, "detail", pa.array(["x" * 1_000_000] * 1_000))
    pq.write_table(
        table,
        path,
        compression="zstd",
        use_dictionary=False,
        column_encoding={"detail": "DELTA_BYTE_ARRAY"},
        write_statistics=False,
    )


def _long_page(path: Path) -> None:
    """A page of zeros that compresses a thousand times."""
    table = _with(_repeated(probe(), "quic_probe", 40), "detail", pa.array(["x" * (1 << 20)] * 40))
    pq.write_table(
        table, path, compression="zstd", use_dictionary=False, data_page_size=1 << 30, write_statistics=False
    )


def _long_lists(path: Path) -> None:
    """Write twenty million equal values in a column's lists."""
    table = _repeated(answer("a.example", "HTTPS"), "dns_answer", 20)
    name = next(
        f.name for f in table.schema if pa.types.is_list(f.type) and pa.types.is_string(f.type.value_type)
    )
    values = pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int8()), 20 << 20), pa.array(["h3"]))
    offsets = pa.array(range(0, (20 << 20) + 1, 1 << 20), pa.int32())
    pq.write_table(_with(table, name, pa.ListArray.from_arrays(offsets, values)), path, compression="zstd")


BOMBS: dict[str, tuple[Callable[[Path], None], str]] = {
    "a long value": (_long_value, "of its rows take"),
    "prefixes": (_prefixes, "DELTA_BYTE_ARRAY"),
    "a long page": (_long_page, "a page of"),
    "long lists": (_long_lists, "values in a row group"),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_file_of_kilobytes_takes_no_gigabytes(tmp_path: Path, bomb: str) -> None:
    write_bomb, message = BOMBS[bomb]
    path = tmp_path / ("dns_answer.parquet" if "lists" in bomb else "quic_probe.parquet")
    write_bomb(path)
    assert path.stat().st_size < 300_000
    pool = pa.default_memory_pool()
    before = pool.bytes_allocated()
    with pytest.raises(InputError, match=message):
        for batch in RecordFile(path, {"source_file": "x"}).batches():
            assert batch.nbytes < MEMORY_BYTES
    assert pool.bytes_allocated() - before < MEMORY_BYTES


def test_long_text_of_a_real_file_is_read_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = many(1_000)
    for number, row in enumerate(rows):
        row["detail"] = str(number % 7) * 2_000
    path = write(tmp_path / "quic_probe.parquet", rows)
    monkeypatch.setattr(cost, "MAX_PIECE_BYTES", 300_000)
    monkeypatch.setattr(record_file, "BATCH_BYTES", 300_000)
    batches = list(RecordFile(path, {"source_file": "x"}).batches())
    assert len(batches) > 1 and pa.concat_tables(batches).equals(pq.read_table(path, schema=SCHEMA))
    monkeypatch.setattr(cost, "MAX_ROW_BYTES", 1_000)
    with pytest.raises(InputError, match="is not a record file of firstflight: "):
        list(RecordFile(path, {"source_file": "x"}).batches())


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("uses_dictionary", [True, False])
def test_the_walk_finds_every_page(tmp_path: Path, version: str, *, uses_dictionary: bool) -> None:
    table = pa.Table.from_pylist(many(3_000), schema=SCHEMA)
    path = tmp_path / "quic_probe.parquet"
    pq.write_table(
        table,
        path,
        use_dictionary=uses_dictionary,
        data_page_version=version,
        data_page_size=4_000,
        row_group_size=700,
        write_page_checksum=True,
    )
    opened = RecordFile(path, {"source_file": "x"})
    assert opened._cost.rows == [65_536] * 5
    assert bool(opened._cost.dictionaries) == uses_dictionary
    assert pa.concat_tables(opened.batches()).equals(table)


def test_a_broken_page_header_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "quic_probe.parquet", many(10))
    content = bytearray(path.read_bytes())
    content[4:12] = b"\xff" * 8
    path.write_bytes(content)
    with pytest.raises(InputError, match=f"{path} is damaged: "):
        RecordFile(path, {"source_file": "x"})
