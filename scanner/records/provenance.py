"""The values that all rows from a stage share."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from firstflight.layout import StageKey
from firstflight.run import clock
from firstflight.run.report import StageReport
from firstflight.run.run import Run
from scanner.records import merge

# A scheduled task sets it to its worker's name.
WORKER_VARIABLE = "FIRSTFLIGHT_WORKER"


def provenance(run: Run, key: StageKey, tool_version: str, ruleset: str, out: Path) -> merge.StageProvenance:
    """Return the values that all quic_probe rows from a stage share."""
    offset = clock.of(run, key)
    return merge.StageProvenance(
        key,
        tool_version,
        ruleset,
        run.layout.name_of(out),
        None if offset is None else offset.offset_us,
        host=socket.gethostname(),
        worker=os.environ.get(WORKER_VARIABLE),
    )


def slot_columns(run: Run, key: StageKey, report: StageReport) -> dict[str, Any]:
    """Return the columns that all watch_slot records from a stage share."""
    offset = clock.of(run, key)
    return {
        **key.columns(),
        "clock_offset_us": None if offset is None else offset.offset_us,
        "tool_version": report.tool_version,
    }


def capture_name(run: Run, key: StageKey) -> Callable[[str], str]:
    """Return a function that converts a capture's file name to the name in rows."""
    folder = run.layout.stage("capture", key)
    return lambda name: run.layout.name_of(folder / name)
