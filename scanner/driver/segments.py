"""Reads an engine's closed segments (Arrow IPC files)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from firstflight.errors import InputError


def closed_segments(folder: Path) -> list[Path]:
    """Return the prober's closed segments, in order; a `.part` file is one that was still open."""
    return sorted(folder.glob("seg-*.arrow"))


def begun(folder: Path) -> bool:
    """Return whether an engine has closed a segment there: of its rows, or of what they bring along, below.

    Of the latter there may be one alone, since it is closed before: an engine that was killed between the two
    has answered no target, and goes on with these segments all the same (`--resume`).
    """
    return any(folder.rglob("seg-*.arrow"))


class NewSegments:
    """The closed segments of a folder, each handed out once.

    After the first look it asks for the next number alone: an engine numbers its segments without a gap, and
    a long run has thousands.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._next: int | None = None

    def take(self) -> list[Path]:
        """Return the segments that were closed since the last call, in order."""
        if self._next is None:
            found = closed_segments(self._folder)
            self._next = 1 + (int(found[-1].stem.removeprefix("seg-")) if found else 0)
            return found
        found = []
        while (path := self._folder / f"seg-{self._next:06}.arrow").is_file():
            found.append(path)
            self._next += 1
        return found


def read_segment(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """Return a segment's rows, mapped from it, with all columns or these. InputError if it cannot be read."""
    try:
        with pa.memory_map(str(path)) as source:
            table = pa.ipc.open_file(source).read_all()
            return table if columns is None else table.select(columns)
    except (OSError, KeyError, pa.ArrowException) as error:
        raise InputError(f"cannot read the segment {path}: {error}; run the stage with --again") from error


def count_below(path: Path, target: int) -> int:
    """Return how many rows of a segment are of smaller targets."""
    below = pc.less(read_segment(path)["target"], pa.scalar(target, pa.uint32()))
    return int(pc.sum(below).as_py() or 0)
