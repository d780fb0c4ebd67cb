"""Last steps for a finished engine's stage: report rejected lines, and remove segments."""

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
from firstflight.run.report import StageReport, UnusedLine
from firstflight.system import files
from scanner.driver.choose import FIRST_LINE


def rejected(
    with_row: npt.NDArray[np.uint32], targets: int, summary: dict[str, Any], reason: str
) -> list[UnusedLine]:
    """Return the lines of targets.csv without a row, with `reason`, if the engine rejected the same number.

    `with_row`: the lines that have a row. `targets`: the number of lines.
    """
    missing = np.setdiff1d(np.arange(FIRST_LINE, FIRST_LINE + targets), with_row)
    if len(missing) != summary["rejected"]:
        return []  # rows are missing for another reason: the totals will not match
    return [UnusedLine(line=int(line), reason=reason) for line in missing]


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
    """Add to the report of `stage` which targets have no row, and why. For the arguments see `rejected`.

    `stopped`: the next start does the rest. Raise FirstflightError if a target has no row and was not
    rejected.
    """
    if stopped:
        report.facts["not_connected"] = targets - len(with_row)
        return
    report.rejected = rejected(with_row, targets, summary, f"rejected by the engine; see {stage}.log")
    if len(with_row) + len(report.rejected) != targets:
        raise FirstflightError(f"{key}: {targets} targets, {len(with_row)} of them have a row")


def remove_segments(out: Path, rows: int | None, segments: Path) -> None:
    """Remove a finished stage's segments, if the record file on disk, `out`, has `rows` rows.

    Otherwise raise FirstflightError and keep the segments. First syncs the record files in the folder and the
    stage's report to disk, because they replace the segments.
    """
    try:
        row_count = pq.ParquetFile(out).metadata.num_rows
    except (OSError, pa.ArrowException) as error:
        raise FirstflightError(f"cannot read {out}, the segments are kept: {error}") from error
    if row_count != rows:
        raise FirstflightError(f"{out} has {row_count} rows instead of {rows}: the segments are kept")
    files.sync([*sorted(out.parent.glob("*.parquet")), *out.parent.glob(REPORT)])
    with files.explain_os_errors(segments), suppress(FileNotFoundError):
        shutil.rmtree(segments)
