"""Rows of record files, with instants as numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from schemas import records


def read(path: Path) -> list[dict[str, Any]]:
    """Return the rows in a record file; instants are ns since 1970.

    The function opens the file only once, because a stage may replace it.
    """
    rows: list[dict[str, Any]] = records.with_numbers(pq.ParquetFile(path).read()).to_pylist()
    return rows
