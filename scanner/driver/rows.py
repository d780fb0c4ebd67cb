"""The rows of an engine's closed segments, in the order of their targets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from firstflight.errors import InputError
from scanner.driver.mapped import BATCH, mapped
from scanner.driver.segments import read_segment


class Rows:
    """All rows of segments, by `target`; in memory are the targets and the order alone (12 bytes per row).

    `targets`: the column `target`, ascending; `unsorted`: all columns, in the order of the segments.
    """

    def __init__(self, paths: Sequence[Path], scratch: Path) -> None:
        """Read the segments; `scratch` is a folder for a temporary file of their size.

        InputError if a segment cannot be read, or a target has two rows.
        """
        if not paths:
            raise InputError("the prober wrote no segment")
        self.unsorted = mapped(map(read_segment, paths), read_segment(paths[0]).schema, scratch)
        unsorted = self.unsorted["target"].to_numpy()
        self.order: npt.NDArray[np.int64] = np.argsort(unsorted, kind="stable")
        self.targets: npt.NDArray[np.uint32] = unsorted[self.order]
        if (self.targets[1:] == self.targets[:-1]).any():
            raise InputError(f"a target has two rows in the segments of {paths[0].parent}")

    def __len__(self) -> int:
        return len(self.targets)

    def slice(self, begin: int, end: int, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the rows from place `begin` to before `end`, with all columns or these."""
        table = self.unsorted if columns is None else self.unsorted.select(columns)
        return table.take(pa.array(self.order[begin:end]))

    def blocks(self, end: int, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """Yield the rows before place `end` in tables of at most BATCH rows, at least one table."""
        for begin in range(0, max(end, 1), BATCH):
            yield self.slice(begin, min(begin + BATCH, end), columns)
