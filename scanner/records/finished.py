"""What follows the record file of a finished engine: its rejected lines, and the end of its segments."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from firstflight.errors import FirstflightError
from firstflight.layout import REPORT, StageKey
from firstflight.run.report import Rejected, StageReport
from firstflight.system import files
from scanner.driver.choose import FIRST_LINE
from scanner.driver.mapped import slices


def rejected(
    with_row: npt.NDArray[np.uint32], targets: int, summary: dict[str, Any], reason: str
) -> list[Rejected]:
    """Return the lines of targets.csv without a row, with `reason`, if the engine rejected as many.

    `with_row`: the lines that have one; `targets`: how many lines there are.
    """
    without = np.ones(targets, dtype=bool)
    for some in slices(len(with_row)):
        places = with_row[some].astype(np.int64) - FIRST_LINE
        without[places[(places >= 0) & (places < targets)]] = False
    if np.count_nonzero(without) != summary["rejected"]:
        return []  # rows are missing for another reason: the sums will not hold
    return [Rejected(line=int(place) + FIRST_LINE, reason=reason) for place in np.flatnonzero(without)]


def account(
    key: StageKey,
    report: StageReport,
    with_row: npt.NDArray[np.uint32],
    targets: int,
    summary: dict[str, Any],
    *,
    stage: str,
    stopped: bool,
) -> None:
    """Enter into the report of `stage` which targets have no row, and why; arguments as of `rejected`.

    `stopped`: the next start does the rest. FirstflightError if a target is missing without having been
    rejected.
    """
    if stopped:
        report.facts["not_connected"] = targets - len(with_row)
        return
    report.rejected = rejected(with_row, targets, summary, f"rejected by the engine; {stage}.log says why")
    if len(with_row) + len(report.rejected) != targets:
        raise FirstflightError(f"{key}: {targets} targets, {len(with_row)} of them have a row")


def remove_segments(out: Path, rows: int | None, segments: Path) -> None:
    """Remove the segments of a stage that is done, if its record file on disk, `out`, has `rows` rows.

    FirstflightError if it has not; the segments are kept then. What replaces them, all record files in that
    folder and the stage's report, is on the disk before.
    """
    try:
        found = pq.ParquetFile(out).metadata.num_rows
    except (OSError, pa.ArrowException) as error:
        raise FirstflightError(f"cannot read {out}, the segments are kept: {error}") from error
    if found != rows:
        raise FirstflightError(f"{out} has {found} rows instead of {rows}: the segments are kept")
    files.sync([*sorted(out.parent.glob("*.parquet")), *out.parent.glob(REPORT)])
    with files.explain_os_errors(segments), suppress(FileNotFoundError):
        shutil.rmtree(segments)
