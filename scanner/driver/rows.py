"""The rows of an engine's closed segments, sorted by target."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from firstflight.errors import InputError
from firstflight.system import files
from scanner.driver.segments import BATCH, joined, read_segment

# Number of rows to take at a time: several blocks, because each Table.take joins all pieces of a column.
TAKEN = 8 * BATCH


class Rows:
    """All rows of segments, sorted by `target`. `targets`: the column `target`, ascending."""

    def __init__(self, paths: Sequence[Path]) -> None:
        """Read the segments.

        Raise InputError for an empty list, an unreadable segment, or a target with two rows. Raise
        OutputError if the disk is full.
        """
        if not paths:
            raise InputError("no target has a row: the engine accepted no line of the list; see its log")
        self._unsorted = _mapped(paths)
        self._order = pc.sort_indices(self._unsorted["target"])
        self.targets: npt.NDArray[np.uint32] = self._unsorted["target"].take(self._order).to_numpy()
        if (self.targets[1:] == self.targets[:-1]).any():
            raise InputError(f"a target has two rows in the segments of {paths[0].parent}")

    def __len__(self) -> int:
        return len(self.targets)

    def slice(self, begin: int, end: int, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the rows from `begin` up to, but not including, `end`, with all columns or these."""
        table = self._unsorted if columns is None else self._unsorted.select(columns)
        return table.take(self._order[begin:end])

    def blocks(self, end: int, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """Yield the rows before `end` in tables of at most BATCH rows, at least one table."""
        for begin in range(0, max(end, 1), TAKEN):
            rows = self.slice(begin, min(begin + TAKEN, end), columns)
            for offset in range(0, max(rows.num_rows, 1), BATCH):
                yield rows.slice(offset, BATCH)


def _mapped(paths: Sequence[Path]) -> pa.Table:
    """Return the rows of all segments as one table, mapped from a file that disappears with this process.

    In memory, a million rows of all columns take half a gigabyte. A slow stage closes more segments than a
    process can map, and each column of a mapped segment takes a kilobyte of memory.
    """
    with files.explain_os_errors(paths[0].parent), tempfile.TemporaryFile(dir=paths[0].parent) as file:
        path = f"/proc/self/fd/{file.fileno()}"
        with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, read_segment(paths[0]).schema) as writer:
            for table in joined(map(read_segment, paths)):
                writer.write_table(table)
        with pa.memory_map(path) as source:
            return pa.ipc.open_file(source).read_all()
