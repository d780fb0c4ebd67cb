"""The rows of an engine's closed segments, sorted by target."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from firstflight.errors import InputError
from scanner.driver.mapped import BATCH, mapped, numbers, rows_at, slices
from scanner.driver.segments import read_segment

_TARGET = np.uint64(32)
_PLACE = np.uint64((1 << 32) - 1)


class Rows:
    """All rows of segments, sorted by `target`. The rows, and 12 bytes per row for the order, are on disk.

    `targets`: the column `target`, ascending. `unsorted`: all columns, in the order of the segments.
    """

    def __init__(self, paths: Sequence[Path], scratch: Path) -> None:
        """Read the segments. `scratch`: a folder for temporary files of their size.

        Raise InputError if a segment cannot be read, or if a target has two rows.
        """
        if not paths:
            raise InputError("no target has a row: the engine accepted no line of the list; see its log")
        self.unsorted = mapped(map(read_segment, paths), read_segment(paths[0]).schema, scratch)
        # Target and position in one number. The array is sorted in place. There are at most 2^32 targets.
        self._order = numbers(self.unsorted.num_rows, np.uint64, scratch)
        begin = 0
        for chunk in self.unsorted["target"].chunks:
            end = begin + len(chunk)
            self._order[begin:end] = chunk.to_numpy().astype(np.uint64) << _TARGET
            self._order[begin:end] |= np.arange(begin, end, dtype=np.uint64)
            begin = end
        self._order.sort()
        self.targets: npt.NDArray[np.uint32] = numbers(len(self._order), np.uint32, scratch)
        last_target = -1
        for part in slices(len(self._order)):
            targets = self._order[part] >> _TARGET
            if targets[0] == last_target or (targets[1:] == targets[:-1]).any():
                raise InputError(f"a target has two rows in the segments of {paths[0].parent}")
            self.targets[part], last_target = targets, int(targets[-1])

    def __len__(self) -> int:
        return len(self.targets)

    def places(self, begin: int, end: int) -> npt.NDArray[np.int64]:
        """Return the positions in `unsorted` of the rows from `begin` up to, but not including, `end`."""
        indices: npt.NDArray[np.int64] = np.asarray(self._order[begin:end] & _PLACE).astype(np.int64)
        return indices

    def slice(self, begin: int, end: int, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the rows from `begin` up to, but not including, `end`, with all columns or these."""
        table = self.unsorted if columns is None else self.unsorted.select(columns)
        return rows_at(table, self.places(begin, end))

    def blocks(self, end: int, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """Yield the rows before `end` in tables of at most BATCH rows, at least one table."""
        for begin in range(0, max(end, 1), BATCH):
            yield self.slice(begin, min(begin + BATCH, end), columns)
