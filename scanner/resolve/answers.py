"""Joins the segments of `firstflight-resolve` into dns_answer.parquet, and counts their answers.

All of it segment by segment: of a name only a byte is in memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from firstflight.errors import InputError
from firstflight.system import files
from scanner.driver.mapped import joined, rows_at
from scanner.driver.segments import NewSegments, closed_segments, read_segment
from schemas import records


class Finished:
    """Counts the names in the closed segments of a folder."""

    def __init__(self, segments: Path) -> None:
        self._segments = NewSegments(segments)
        self._names = 0

    def count(self) -> int:
        """Return how many names have rows; a name that was asked for again counts again."""
        for path in self._segments.take():
            self._names += pc.count_distinct(read_segment(path, ["target"])["target"]).as_py()
        return self._names


def join(segments: Path, names: pa.Table, common: dict[str, Any], path: Path) -> Counter[str]:
    """Write all rows, with the columns `common`, list_id and rank, to `path` (record kind `dns_answer`).

    `names` is read_list's: rank and list_id of each line of names.txt. Of a name in several segments the last
    one counts. Returns the counts: `rows`, `names`, and names by query type and status (`A_NOERROR`, ...).
    InputError if a segment cannot be read, or answers lines that there are not.
    """
    found = closed_segments(segments)
    schema = records.load("dns_answer").arrow_schema()
    kept = _kept(found, names.num_rows)
    counts: Counter[str] = Counter(rows=0, names=0)

    def stamped() -> Iterator[pa.Table]:
        for segment in found:
            table = read_segment(segment)
            if segment in kept:
                table = table.filter(kept[segment])
            counts["rows"] += table.num_rows
            counts["names"] += pc.count_distinct(table["target"]).as_py()
            counts.update(_statuses(table))
            own = rows_at(names, table["target"].to_numpy().astype(np.int64) - 1)
            columns = {name: own[name].cast(schema.field(name).type) for name in own.column_names}
            yield _stamped(table, common, columns, schema)

    with files.replacing(path) as part, pq.ParquetWriter(part, schema, compression="zstd") as writer:
        for table in joined(stamped()):
            writer.write_table(table)
    return counts


def _kept(segments: Sequence[Path], names: int) -> dict[Path, pa.Array]:
    """Return, for each segment with names that a later one answers as well, which rows count."""
    answered = np.zeros(names + 1, dtype=bool)
    masks = {}
    for segment in reversed(segments):
        lines = read_segment(segment, ["target"])["target"].to_numpy()
        if lines.size and not 1 <= lines.min() <= lines.max() <= names:
            some = f"lines {lines.min()} to {lines.max()}"
            raise InputError(f"{segment} answers {some} of {names}: run the stage with --again")
        again = answered[lines]
        if again.any():
            masks[segment] = pa.array(~again)
        answered[lines] = True
    return masks


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
    first = table.filter(pc.fill_null(pc.equal(table["answer_rank"], 0), True))
    columns = [first[name].cast(pa.string()) for name in ("qtype", "status")]
    found = pc.value_counts(pc.binary_join_element_wise(*columns, "_"))
    return Counter({str(entry["values"]): int(entry["counts"]) for entry in found.to_pylist()})
