"""Reads an engine's closed segments (Arrow IPC files)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from firstflight.errors import InputError

# Approximate number of rows in memory at a time.
BATCH = 32_768


def closed_segments(folder: Path) -> list[Path]:
    """Return the prober's closed segments, in order. A `.part` file was still open."""
    return sorted(folder.glob("seg-*.arrow"))


def has_segments(folder: Path) -> bool:
    """Return whether an engine has closed a segment in `folder` or in a folder below it.

    Folders below have further rows for a target, such as certificates. Their segments are closed earlier. An
    engine that was killed between the two has only closed these, and must also continue with them.
    """
    return any(folder.rglob("seg-*.arrow"))


def resume_flag(folder: Path) -> list[str]:
    """Return `--resume` if `folder` has closed segments, so that the engine continues after them."""
    return ["--resume"] if has_segments(folder) else []


class NewSegments:
    """A folder's closed segments. Returns each segment once.

    After the first call it only checks for the next number, because an engine numbers its segments without
    gaps, and a long run has thousands.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._next: int | None = None

    def take(self) -> list[Path]:
        """Return the segments that were closed since the last call, in order."""
        if self._next is None:
            paths = closed_segments(self._folder)
            self._next = 1 + (int(paths[-1].stem.removeprefix("seg-")) if paths else 0)
            return paths
        paths = []
        while (path := self._folder / f"seg-{self._next:06}.arrow").is_file():
            paths.append(path)
            self._next += 1
        return paths


def read_segment(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """Return a segment's rows, mapped from the file, with all columns or these. InputError if unreadable."""
    try:
        with pa.memory_map(str(path)) as source:
            table = pa.ipc.open_file(source).read_all()
            return table if columns is None else table.select(columns)
    except (OSError, KeyError, pa.ArrowException) as error:
        raise InputError(f"cannot read the segment {path}: {error}; run the stage with --again") from error


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


def count_below(path: Path, target: int) -> int:
    """Return the number of a segment's rows with smaller target numbers."""
    is_below = pc.less(read_segment(path)["target"], pa.scalar(target, pa.uint32()))
    return int(pc.sum(is_below).as_py() or 0)
