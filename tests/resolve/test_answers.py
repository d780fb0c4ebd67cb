"""Joining the segments of the resolving engine: which rows count, and how many answers there are."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firstflight.errors import InputError
from scanner.resolve import answers
from schemas import records

SCHEMA = records.load("dns_answer").arrow_schema()
STAGE = {"run": "r", "vantage": "v", "repetition": 1, "tool_version": "t"}
# A row in a segment: line of names.txt, query type, status, place of the record in the answer.
Row = tuple[int, str, str, int | None]


def write_segment(folder: Path, number: int, rows: list[Row]) -> None:
    """Write a segment as the engine does: its own columns of dns_answer, and the line."""
    given = {*STAGE, "list_id", "rank"}
    fields = [
        pa.field(column.name, column.segment_type(), column.nullable)
        for column in records.load("dns_answer").file_columns
        if column.name not in given
    ]
    empty = {pa.string(): "", pa.int64(): 0, pa.uint8(): 1}
    values = [
        {field.name: None if field.nullable else empty.get(field.type, []) for field in fields}
        | {"target": line, "domain": f"n{line}.test", "qtype": qtype, "status": status, "answer_rank": rank}
        for line, qtype, status, rank in rows
    ]
    schema = pa.schema([pa.field("target", pa.uint32()), *fields])
    path = folder / f"seg-{number:06}.arrow"
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        writer.write_table(pa.Table.from_pylist(values, schema=schema))


def names(count: int) -> pa.Table:
    """Return a list; every third name has no rank."""
    return pa.table(
        {
            "rank": pa.array([None if n % 3 == 0 else n for n in range(1, count + 1)], pa.uint32()),
            "domain": [f"n{n}.test" for n in range(1, count + 1)],
            "list_id": [f"list {n % 2}" for n in range(1, count + 1)],
        }
    )


def test_of_a_name_in_several_segments_the_last_counts(tmp_path: Path) -> None:
    write_segment(tmp_path, 1, [(1, "A", "TIMEOUT", None), (2, "A", "NOERROR", 0), (2, "A", "NOERROR", 1)])
    write_segment(tmp_path, 2, [(1, "A", "NOERROR", 0), (3, "A", "NXDOMAIN", None)])
    counts = answers.join(tmp_path, names(3), STAGE, tmp_path / "out.parquet")
    assert counts == Counter(rows=4, names=3, A_NOERROR=2, A_NXDOMAIN=1)
    rows = pq.ParquetFile(tmp_path / "out.parquet").read()
    assert rows.schema.equals(SCHEMA)
    found = rows.select(["domain", "status", "answer_rank", "rank", "list_id", "run"]).to_pylist()
    assert [tuple(row.values()) for row in found] == [
        ("n2.test", "NOERROR", 0, 2, "list 0", "r"),
        ("n2.test", "NOERROR", 1, 2, "list 0", "r"),
        ("n1.test", "NOERROR", 0, 1, "list 1", "r"),
        ("n3.test", "NXDOMAIN", None, None, "list 1", "r"),
    ]


@pytest.mark.parametrize("seed", range(6))
def test_as_a_plain_reading_would(seed: int, tmp_path: Path) -> None:
    """Random segments against the obvious way: a dict of the last segment of each name."""
    draw = random.Random(seed)
    segments: list[list[Row]] = []
    for number in range(draw.randint(1, 5)):
        rows: list[Row] = []
        for line in draw.sample(range(1, 31), draw.randint(0, 20)):
            status, records_found = draw.choice([("NOERROR", 2), ("NOERROR", 0), ("SERVFAIL", 0)])
            ranks: list[int | None] = [*range(records_found)] or [None]
            rows += [(line, draw.choice(["A", "AAAA"]), status, rank) for rank in ranks]
        segments.append(rows)
        write_segment(tmp_path, number, rows)
    last = {row[0]: number for number, rows in enumerate(segments) for row in rows}
    newest_rows = [row for number, rows in enumerate(segments) for row in rows if last[row[0]] == number]
    expected = Counter(f"{qtype}_{status}" for _, qtype, status, rank in newest_rows if not rank)
    counts = answers.join(tmp_path, names(30), STAGE, tmp_path / "out.parquet")
    assert counts == expected + Counter(rows=len(newest_rows), names=len(last))
    found = pq.ParquetFile(tmp_path / "out.parquet").read().to_pylist()
    assert [(row["domain"], row["answer_rank"]) for row in found] == [
        (f"n{row[0]}.test", row[3]) for row in newest_rows
    ]
    assert answers.FinishedNames(tmp_path).count() == sum(len({row[0] for row in rows}) for rows in segments)


@pytest.mark.parametrize("line", [0, 4])
def test_missing_lines_are_refused(line: int, tmp_path: Path) -> None:
    write_segment(tmp_path, 1, [(1, "A", "NOERROR", 0), (line, "A", "NOERROR", 0)])
    with pytest.raises(InputError, match=f"answers lines {min(line, 1)} to {max(line, 1)} of 3"):
        answers.join(tmp_path, names(3), STAGE, tmp_path / "out.parquet")
