"""Counts a finished calibrate stage again from the file, to verify the run's totals."""

from __future__ import annotations

import pyarrow.parquet as pq

from firstflight.errors import FirstflightError
from firstflight.run.report import StageReport
from firstflight.run.run import Run
from scanner.calibrate import records


def count(run: Run, report: StageReport) -> dict[str, int]:
    """Count the pairs in calibration.parquet, in total and by kind as pairs_KIND.

    Raise FirstflightError with vantage point and repetition if the file differs from the stage's report.
    """
    key = report.key(run.id)
    assert key is not None
    file = pq.ParquetFile(run.layout.calibration(key))
    result = records.counts(file.iter_batches(columns=records.COUNTED))
    if report.counts != result:
        raise FirstflightError(f"{key}: calibration.parquet does not match the stage's report")
    return {"pairs": file.metadata.num_rows, **{f"pairs_{name}": n for name, n in result.items()}}
