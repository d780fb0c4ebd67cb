"""Counts a finished handshake stage again from its file, to verify the run's totals."""

from __future__ import annotations

from firstflight.run.report import StageReport
from firstflight.run.run import Run
from scanner.records import totals


def count(run: Run, report: StageReport) -> dict[str, int]:
    """Count rows, in total and by outcome. Raise like `scanner.records.totals.of_connections`."""
    key = report.key(run.id)
    assert key is not None
    return totals.of_connections(key, report, run.layout.handshakes(key), "handshakes")
