"""Rows in the native prober's closed segments (scanner/native/first_answer/README.md)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa


def rows_of(folder: Path) -> list[dict[str, Any]]:
    """Return the rows of all closed segments of a folder, in their order."""
    return [row for path in sorted(folder.glob("seg-*.arrow")) for row in _rows(path)]


def sending_times(folder: Path) -> list[tuple[int, int]]:
    """Return when the first and the last probe of each closed segment were sent (ns), in their order.

    All of a segment is sent by one process: one that is started again begins a segment of its own.
    """
    segments = ([row["sent_at"] for row in _rows(path)] for path in sorted(folder.glob("seg-*.arrow")))
    sent = ([time for time in times if time is not None] for times in segments)
    return [(min(times), max(times)) for times in sent if times]


def _rows(path: Path) -> list[dict[str, Any]]:
    with pa.memory_map(str(path)) as source:
        rows: list[dict[str, Any]] = pa.ipc.open_file(source).read_all().to_pylist()
        return rows
