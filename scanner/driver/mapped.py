"""Tables and arrays that are on disk instead of in memory, and come and go with this process."""

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

# Rows that are in memory at a time, about.
BATCH = 32_768


def mapped(tables: Iterable[pa.Table], schema: pa.Schema, folder: Path) -> pa.Table:
    """Return the rows of `tables` as one table that is mapped from a file in `folder`.

    The file has no name, so that a killed process leaves none; its space is free when nothing refers to the
    table any more. OutputError if the disk is full.
    """
    with files.explain_os_errors(folder), tempfile.TemporaryFile(dir=folder) as file:
        path = f"/proc/self/fd/{file.fileno()}"
        with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
            for table in joined(tables):
                writer.write_table(table)
        with pa.memory_map(path) as source:
            return pa.ipc.open_file(source).read_all()


def numbers(count: int, dtype: npt.DTypeLike, folder: Path) -> npt.NDArray[Any]:
    """Return an array of zeros that is mapped from a file in `folder`, as a table of `mapped`.

    OutputError if the disk is full.
    """
    size = count * np.dtype(dtype).itemsize
    if not size:  # no file of that size can be mapped
        return np.zeros(count, dtype)
    with files.explain_os_errors(folder), tempfile.TemporaryFile(dir=folder) as file:
        # Without space on the disk, writing into the array would kill the process.
        os.posix_fallocate(file.fileno(), 0, size)
        return np.memmap(file, dtype, "r+", shape=(count,))


def slices(count: int) -> Iterator[slice]:
    """Yield slices of at most BATCH that cover `count` places, in order."""
    for begin in range(0, count, BATCH):
        yield slice(begin, min(begin + BATCH, count))


def batches(path: Path, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield columns of a record file in batches of at most BATCH rows. OSError or ArrowException.

    Row group by row group, because Arrow's own iteration keeps the data of all earlier groups; by one thread,
    because each keeps memory for itself.
    """
    # Not read_table, which imports pyarrow.dataset: half a second.
    with pq.ParquetFile(path, pre_buffer=False) as file:
        for group in range(file.num_row_groups):
            yield from file.iter_batches(BATCH, row_groups=[group], columns=list(columns), use_threads=False)
    pa.default_memory_pool().release_unused()


def rows_at(table: pa.Table, places: npt.NDArray[np.int64]) -> pa.Table:
    """Return the rows of a table in these places, in their order, as `Table.take`.

    That joins all pieces of a column in memory first, for each column of a table; here only the rows are.
    IndexError if there is no such place.
    """
    if len(places) and not 0 <= places.min() <= places.max() < table.num_rows:
        raise IndexError(f"no rows {places.min()} to {places.max()} in a table of {table.num_rows}")
    order = np.argsort(places, kind="stable")
    ascending = places[order]
    found, begin = [table.schema.empty_table()], 0
    for batch in table.to_batches():
        end = begin + batch.num_rows
        first, last = np.searchsorted(ascending, [begin, end])
        if first < last:
            found.append(pa.Table.from_batches([batch.take(pa.array(ascending[first:last] - begin))]))
        begin = end
    rows = pa.concat_tables(found).combine_chunks()
    if (order[1:] > order[:-1]).all():
        return rows
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    return rows.take(pa.array(back))


def joined(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield the rows of `tables` in tables of BATCH rows or more; each column of each table takes memory."""
    waiting: list[pa.Table] = []
    rows = 0
    for table in tables:
        waiting.append(table)
        rows += table.num_rows
        if rows >= BATCH:
            yield pa.concat_tables(waiting).combine_chunks()
            waiting, rows = [], 0
    if waiting:
        yield pa.concat_tables(waiting).combine_chunks()
