"""The closed segments of an engine (Arrow IPC files) that a stage finds in its folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from firstflight.errors import InputError


def closed_segments(folder: Path) -> list[Path]:
    """The prober's whole segments, in order; a `.part` is one that was still open."""
    return sorted(folder.glob("seg-*.arrow"))


def read_segments(paths: Sequence[Path]) -> pa.Table:
    """Rows of all segments, sorted by `target`. InputError if one cannot be read or a target has two rows."""
    tables = []
    for path in paths:
        try:
            with pa.memory_map(str(path)) as source:
                tables.append(pa.ipc.open_file(source).read_all())
        except (OSError, pa.ArrowException) as error:
            raise InputError(f"cannot read the segment {path}: {error}") from error
    if not tables:
        raise InputError("the prober left no segment")
    table = pa.concat_tables(tables).sort_by("target")
    if pc.count_distinct(table["target"]).as_py() != table.num_rows:
        raise InputError(f"a target has two rows in the segments of {paths[0].parent}")
    return table


def targets_in(path: Path) -> list[int]:
    """The targets that a segment has rows of."""
    with pa.memory_map(str(path)) as source:
        targets: list[int] = pa.ipc.open_file(source).read_all()["target"].to_pylist()
        return targets
