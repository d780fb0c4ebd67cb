"""Rows in the native prober's closed segments (scanner/native/first_answer/README.md)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa


def rows_of(folder: Path) -> list[dict[str, Any]]:
    """Return the rows of all closed segments in a folder, in order."""
    found: list[dict[str, Any]] = []
    for path in sorted(folder.glob("seg-*.arrow")):
        with pa.memory_map(str(path)) as source:
            found += pa.ipc.open_file(source).read_all().to_pylist()
    return found


def count_of(folder: Path) -> int:
    """Return the number of rows in all closed segments in a folder."""
    count = 0
    for path in folder.glob("seg-*.arrow"):
        with pa.memory_map(str(path)) as source:
            count += pa.ipc.open_file(source).read_all().num_rows
    return count
