"""Joining the segments of `firstflight-resolve`: all rows, in their order, for any block size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firstflight.errors import InputError
from scanner.driver import segments
from scanner.resolve import answers
from schemas import records

NAMES = pa.table(
    {
        "rank": pa.array([7, 8, None], pa.uint32()),
        "list_id": pa.chunked_array([pa.array(["L", "L"]), pa.array(["M"])]).dictionary_encode(),
    }
)
COMMON = {"run": "R", "vantage": "here", "repetition": 1, "tool_version": "0.1"}
# (line of the name, its address, status) of each row, by segment; line 1 is answered again.
SEGMENTS: list[list[tuple[int, str | None, str]]] = [
    [(1, None, "TIMEOUT"), (3, "192.0.2.3", "NOERROR")],
    [],
    [(2, None, "NXDOMAIN"), (1, "192.0.2.1", "NOERROR")],
]


def write(folder: Path, number: int, rows: list[tuple[int, str | None, str]]) -> None:
    empty: dict[str, Any] = {"string": "", "bool": False}
    base: dict[str, Any] = {}
    fields = [pa.field("target", pa.uint32(), nullable=False)]
    for column in records.load("dns_answer").columns:
        if column.source == "resolve":
            fields.append(pa.field(column.name, column.segment_type(), nullable=column.nullable))
            listed = pa.types.is_list(column.segment_type())
            base[column.name] = None if column.nullable else [] if listed else empty.get(column.type, 0)
    found = [
        base
        | {"target": line, "domain": f"{line}.test", "qtype": "A", "status": status, "address": address}
        | {"answer_rank": None if address is None else 0}
        for line, address, status in rows
    ]
    table = pa.Table.from_pylist(found, schema=pa.schema(fields))
    path = folder / f"seg-{number:06}.arrow"
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def test_a_shard_without_names_is_no_row(tmp_path: Path) -> None:
    out = tmp_path / "dns_answer.parquet"
    assert answers.join(tmp_path, NAMES.slice(0, 0), COMMON, out) == {"rows": 0, "names": 0}
    assert pq.read_table(out).num_rows == 0


@pytest.mark.parametrize("block", [1, 3, 32_768])
def test_the_last_answer_of_a_name_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr(segments, "BATCH", block)
    for number, rows in enumerate(SEGMENTS, start=1):
        write(tmp_path, number, rows)
    out = tmp_path / "dns_answer.parquet"
    counts = answers.join(tmp_path, NAMES, COMMON, out)
    assert counts == {"rows": 3, "names": 3, "A_NOERROR": 2, "A_NXDOMAIN": 1}
    table = pq.ParquetFile(out).read()
    assert table.schema.names == records.load("dns_answer").arrow_schema().names
    named = ("domain", "address", "status", "rank", "list_id", "run", "repetition")
    assert [tuple(row[name] for name in named) for row in table.to_pylist()] == [
        ("3.test", "192.0.2.3", "NOERROR", None, "M", "R", 1),
        ("2.test", None, "NXDOMAIN", 8, "L", "R", 1),
        ("1.test", "192.0.2.1", "NOERROR", 7, "L", "R", 1),
    ]


def test_missing_lines_are_refused(tmp_path: Path) -> None:
    write(tmp_path, 1, [(4, None, "TIMEOUT")])
    with pytest.raises(InputError, match=r"lines 4 to 4 of 3: run the stage with --again"):
        answers.join(tmp_path, NAMES, COMMON, tmp_path / "dns_answer.parquet")
    assert not (tmp_path / "dns_answer.parquet").exists()
