"""Joins the segments of `firstflight-resolve` into dns_answer.parquet, and counts their answers."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from firstflight.errors import InputError
from firstflight.system import files
from scanner.driver.segments import closed_segments
from scanner.resolver.names import Name
from schemas import records


class Finished:
    """Counts the names in the closed segments of a folder."""

    def __init__(self, segments: Path) -> None:
        self._segments = segments
        self._read: set[Path] = set()
        self._names = 0

    def count(self) -> int:
        """Return how many names have rows; a name that was asked for again counts again."""
        for path in closed_segments(self._segments):
            if path not in self._read:
                self._read.add(path)
                self._names += len(set(_read(path)["target"].to_pylist()))
        return self._names


def join(segments: Path, names: Sequence[Name], common: dict[str, Any], path: Path) -> Counter[str]:
    """Write all rows, with the columns `common`, list_id and rank, to `path` (record kind `dns_answer`).

    Of a name in several segments the last one counts. Returns the counts: `rows`, `names`, and names by query
    type and status (`A_NOERROR`, ...). InputError if a segment cannot be read.
    """
    found = closed_segments(segments)
    schema = records.load("dns_answer").arrow_schema()
    last = array("L", bytes(array("L").itemsize * (len(names) + 1)))
    for number, segment in enumerate(found):
        for line in set(_read(segment)["target"].to_pylist()):
            if line >= len(last):
                raise InputError(f"{segment} answers line {line} of {len(names)}: run the stage with --again")
            last[line] = number
    ranks = pa.array([name.rank for name in names], schema.field("rank").type)
    list_ids = pa.array([name.list_id for name in names], pa.string())
    counts: Counter[str] = Counter(names=0)
    with files.replacing(path) as part, pq.ParquetWriter(part, schema, compression="zstd") as writer:
        for number, segment in enumerate(found):
            table = _read(segment)
            lines = table["target"].to_pylist()
            if any(last[line] != number for line in lines):
                table = table.filter(pa.array([last[line] == number for line in lines]))
                lines = table["target"].to_pylist()
            places = pa.array([line - 1 for line in lines], pa.uint32())
            columns = {"rank": ranks.take(places), "list_id": list_ids.take(places)}
            writer.write_table(_stamped(table, common, columns, schema))
            counts["rows"] += table.num_rows
            counts["names"] += len(set(lines))
            counts.update(_statuses(table))
    return counts


def _read(path: Path) -> pa.Table:
    try:
        with pa.memory_map(str(path)) as source:
            return pa.ipc.open_file(source).read_all()
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"cannot read the segment {path}: {error}; run the stage with --again") from error


def _stamped(
    table: pa.Table, common: dict[str, Any], columns: dict[str, pa.Array], schema: pa.Schema
) -> pa.Table:
    """Return the table with all columns of `schema`, in its order."""
    all_columns = []
    for field in schema:
        if field.name in common:
            all_columns.append(pa.repeat(pa.scalar(common[field.name], field.type), table.num_rows))
        elif field.name in columns:
            all_columns.append(columns[field.name])
        else:
            all_columns.append(table[field.name].cast(field.type))
    return pa.Table.from_arrays(all_columns, schema=schema)


def _statuses(table: pa.Table) -> Counter[str]:
    """Count (name, query type) pairs by status: rows without record, and first records."""
    columns = table.select(["qtype", "status", "answer_rank"]).to_pydict()
    triples = zip(columns["qtype"], columns["status"], columns["answer_rank"], strict=True)
    return Counter(f"{qtype}_{status}" for qtype, status, answer_rank in triples if not answer_rank)
