"""Counts a finished handshake stage again from its files, to verify the run's totals."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from firstflight.errors import FirstflightError
from firstflight.run.report import StageReport
from firstflight.run.run import Run
from scanner.records import counts


def count(run: Run, report: StageReport) -> dict[str, int]:
    """Count handshakes, and those by outcome as handshakes_OUTCOME, in quic_handshake.parquet.

    FirstflightError naming vantage point and repetition if the file differs from the stage's report.
    """
    key = report.key(run.id)
    assert key is not None
    batches = pq.ParquetFile(run.layout.handshakes(key)).iter_batches(columns=["outcome"])
    found = counts.of_connections(pa.Table.from_batches([batch]) for batch in batches)
    if report.counts != found:
        raise FirstflightError(f"{key}: quic_handshake.parquet does not match the stage's report")
    return {
        "handshakes": sum(n for name, n in found.items() if name != "sent"),
        **{f"handshakes_{name}": n for name, n in found.items()},
    }
