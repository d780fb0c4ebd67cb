"""Counts a finished tcp_options stage again from its file, to verify the run's totals."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from firstflight.errors import FirstflightError
from firstflight.run.report import StageReport
from firstflight.run.run import Run
from scanner.records import counts


def count(run: Run, report: StageReport) -> dict[str, int]:
    """Count rows, and those by outcome as tcp_options_OUTCOME, in tcp_option.parquet.

    FirstflightError naming vantage point and repetition if the file differs from the stage's report.
    """
    key = report.key(run.id)
    assert key is not None
    batches = pq.ParquetFile(run.layout.tcp_option(key)).iter_batches(columns=["outcome"])
    found = counts.of_connections(pa.Table.from_batches([batch]) for batch in batches)
    if report.counts != found:
        raise FirstflightError(f"{key}: tcp_option.parquet does not match the stage's report")
    return {
        "tcp_options": sum(n for name, n in found.items() if name != "sent"),
        **{f"tcp_options_{name}": n for name, n in found.items()},
    }
