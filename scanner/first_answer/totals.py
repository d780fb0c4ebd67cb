"""Counts a finished probe stage again from its files, to verify the run's totals."""

from __future__ import annotations

import pyarrow.parquet as pq

from firstflight.errors import FirstflightError
from firstflight.run import accounting
from firstflight.run.report import StageReport
from firstflight.run.run import Run
from scanner.records import counts


def count(run: Run, report: StageReport) -> dict[str, int]:
    """Count targets, rejected, sent and rows by outcome, in targets.csv and quic_probe.parquet.

    Raise FirstflightError with vantage point and repetition if the totals of definitions.md do not match, or
    if the record file differs from the stage's report.
    """
    key = report.key(run.id)
    assert key is not None
    with (run.layout.stage("probe", key) / "targets.csv").open("rb") as file:
        lines = sum(1 for _ in file) - 1
    rows = pq.ParquetFile(run.layout.quic_probe(key)).iter_batches(columns=["outcome", "attempts"])
    result = counts.of(rows)
    rejected = len(report.rejected)
    accounting.balance(lines - rejected, result.sent, result.by_outcome, str(key))
    if report.counts != result.for_report():
        raise FirstflightError(f"{key}: quic_probe.parquet does not match the stage's report")
    return {"targets": lines, "rejected": rejected, **result.for_report()}
