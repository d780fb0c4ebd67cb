"""Counts the rows from a finished stage again from the file, to verify the run's totals."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from firstflight.errors import FirstflightError
from firstflight.layout import StageKey
from firstflight.run.report import StageReport
from scanner.records import counts


def of_connections(key: StageKey, report: StageReport, path: Path, name: str) -> dict[str, int]:
    """Count the rows in a file with one row per connection: all as `name`, and by outcome as name_OUTCOME.

    Raise FirstflightError with vantage point and repetition if the file differs from the stage's report.
    """
    batches = pq.ParquetFile(path).iter_batches(columns=["outcome"])
    result = counts.of_connections(pa.Table.from_batches([batch]) for batch in batches)
    if report.counts != result:
        raise FirstflightError(f"{key}: {path.name} does not match the stage's report")
    return {
        name: sum(n for outcome, n in result.items() if outcome != "sent"),
        **{f"{name}_{outcome}": n for outcome, n in result.items()},
    }
