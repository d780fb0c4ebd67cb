"""Tables and arrays in files instead of memory. The files disappear with this process."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from firstflight.system import files

# Approximate number of rows in memory at a time.
BATCH = 32_768


def mapped(tables: Iterable[pa.Table], schema: pa.Schema, folder: Path) -> pa.Table:
    """Return the rows of `tables` as one table, mapped from a file in `folder`.

    The file has no name, so a killed process leaves no file behind. The space is free again when the table is
    no longer referenced. Raise OutputError if the disk is full.
    """
    with files.explain_os_errors(folder), tempfile.TemporaryFile(dir=folder) as file:
        path = f"/proc/self/fd/{file.fileno()}"
        with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
            for table in joined(tables):
                writer.write_table(table)
        with pa.memory_map(path) as source:
            return pa.ipc.open_file(source).read_all()


def numbers(count: int, dtype: npt.DTypeLike, folder: Path) -> npt.NDArray[Any]:
    """Return an array of zeros, mapped from a file in `folder` like a table of `mapped`.

    Raise OutputError if the disk is full.
    """
    size = count * np.dtype(dtype).itemsize
    if not size:  # an empty file cannot be mapped
        return np.zeros(count, dtype)
    with files.explain_os_errors(folder), tempfile.TemporaryFile(dir=folder) as file:
        # Without space on the disk, writing to the array would kill the process.
        os.posix_fallocate(file.fileno(), 0, size)
        return np.memmap(file, dtype, "r+", shape=(count,))


def slices(count: int) -> Iterator[slice]:
    """Yield slices of at most BATCH that cover `count` positions, in order."""
    for begin in range(0, count, BATCH):
        yield slice(begin, min(begin + BATCH, count))


def batches(path: Path, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield columns from a record file in batches of at most BATCH rows. Raise OSError or ArrowException.

    Reads row group by row group, because Arrow's own iteration keeps the data of all earlier groups. Uses one
    thread, because each thread keeps its own memory.
    """
    # Not read_table, because it imports pyarrow.dataset, which takes half a second.
    with pq.ParquetFile(path, pre_buffer=False) as file:
        for group in range(file.num_row_groups):
            yield from file.iter_batches(BATCH, row_groups=[group], columns=list(columns), use_threads=False)
    pa.default_memory_pool().release_unused()


def rows_at(table: pa.Table, indices: npt.NDArray[np.int64]) -> pa.Table:
    """Return a table's rows at these positions, in order, like `Table.take`.

    `Table.take` first joins all pieces of each column in memory. This function only joins the selected rows.
    Raise IndexError for a position outside of the table.
    """
    if len(indices) and not 0 <= indices.min() <= indices.max() < table.num_rows:
        raise IndexError(f"no rows {indices.min()} to {indices.max()} in a table of {table.num_rows}")
    order = np.argsort(indices, kind="stable")
    ascending = indices[order]
    tables, begin = [table.schema.empty_table()], 0
    for batch in table.to_batches():
        end = begin + batch.num_rows
        first, last = np.searchsorted(ascending, [begin, end])
        if first < last:
            tables.append(pa.Table.from_batches([batch.take(pa.array(ascending[first:last] - begin))]))
        begin = end
    rows = pa.concat_tables(tables).combine_chunks()
    if (order[1:] > order[:-1]).all():
        return rows
    inverse = np.empty_like(order)
    inverse[order] = np.arange(len(order))
    return rows.take(pa.array(inverse))


def joined(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield the rows of `tables` in tables of at least BATCH rows. Each column in a table costs memory."""
    buffer: list[pa.Table] = []
    rows = 0
    for table in tables:
        buffer.append(table)
        rows += table.num_rows
        if rows >= BATCH:
            yield pa.concat_tables(buffer).combine_chunks()
            buffer, rows = [], 0
    if buffer:
        yield pa.concat_tables(buffer).combine_chunks()
