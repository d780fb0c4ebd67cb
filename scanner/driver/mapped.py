"""Tables whose rows are on disk instead of in memory, and come and go with this process."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa

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
