"""Joins the segments of `firstflight-resolve` to dns_answer.parquet, and counts their answers.

Works segment by segment. Memory holds the list, and a byte per name.
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
from scanner.driver.segments import NewSegments, closed_segments, joined, read_segment
from schemas import records


class FinishedNames:
    """Counts the names in a folder's closed segments."""

    def __init__(self, segments: Path) -> None:
        self._segments = NewSegments(segments)
        self._names = 0

    def count(self) -> int:
        """Return the number of names with rows. A name that was queried again counts again."""
        for path in self._segments.take():
            self._names += pc.count_distinct(read_segment(path, ["target"])["target"]).as_py()
        return self._names


def join(segments: Path, names: pa.Table, common: dict[str, Any], path: Path) -> Counter[str]:
    """Write all rows, with the columns `common`, list_id and rank, to `path` (record kind `dns_answer`).

    `names`: from read_list, rank and list_id of each line of names.txt. If several segments have a name, the
    last one is used. Return the counts: `rows`, `names`, and names by query type and status (`A_NOERROR`,
    ...). Raise InputError if a segment cannot be read, or answers a line that does not exist.
    """
    paths = closed_segments(segments)
    schema = records.load("dns_answer").arrow_schema()
    masks = _newest_masks(paths, names.num_rows)
    counts: Counter[str] = Counter(rows=0, names=0)

    def stamped() -> Iterator[pa.Table]:
        for segment in paths:
            table = read_segment(segment)
            if segment in masks:
                table = table.filter(masks[segment])
            counts["rows"] += table.num_rows
            counts["names"] += pc.count_distinct(table["target"]).as_py()
            counts.update(_statuses(table))
            name_rows = names.take(pc.subtract(table["target"], pa.scalar(1, pa.uint32())))
            columns = {name: name_rows[name].cast(schema.field(name).type) for name in name_rows.column_names}
            yield _stamped(table, common, columns, schema)

    with files.replacing(path) as part, pq.ParquetWriter(part, schema, compression="zstd") as writer:
        for table in joined(stamped()):
            writer.write_table(table)
    return counts


def _newest_masks(segments: Sequence[Path], names: int) -> dict[Path, pa.Array]:
    """Return which rows to keep, for each segment with names that a later segment also answers."""
    answered = np.zeros(names + 1, dtype=bool)
    masks = {}
    for segment in reversed(segments):
        lines = read_segment(segment, ["target"])["target"].to_numpy()
        if lines.size and not 1 <= lines.min() <= lines.max() <= names:
            answered_lines = f"lines {lines.min()} to {lines.max()}"
            raise InputError(f"{segment} answers {answered_lines} of {names}: run the stage with --again")
        is_repeated = answered[lines]
        if is_repeated.any():
            masks[segment] = pa.array(~is_repeated)
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
    """Count (name, query type) pairs by status: rows without a record, and first records."""
    first = table.filter(pc.fill_null(pc.equal(table["answer_rank"], 0), True))
    columns = [first[name].cast(pa.string()) for name in ("qtype", "status")]
    value_counts = pc.value_counts(pc.binary_join_element_wise(*columns, "_"))
    return Counter({str(entry["values"]): int(entry["counts"]) for entry in value_counts.to_pylist()})
