"""Counts the rows of a finished stage again from its file, to verify the run's totals."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from firstflight.errors import FirstflightError
from firstflight.layout import StageKey
from firstflight.run.report import StageReport
from scanner.records import counts


def of_connections(key: StageKey, report: StageReport, path: Path, name: str) -> dict[str, int]:
    """Return the rows of a file with a row per connection as `name`, and those by outcome as name_OUTCOME.

    FirstflightError naming vantage point and repetition if the file differs from the stage's report.
    """
    batches = pq.ParquetFile(path).iter_batches(columns=["outcome"])
    found = counts.of_connections(pa.Table.from_batches([batch]) for batch in batches)
    if report.counts != found:
        raise FirstflightError(f"{key}: {path.name} does not match the stage's report")
    return {
        name: sum(n for outcome, n in found.items() if outcome != "sent"),
        **{f"{name}_{outcome}": n for outcome, n in found.items()},
    }
