"""What is the same in all rows of one stage."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from firstflight.run import clock
from firstflight.run.report import StageReport
from firstflight.run.run import Run
from scanner.records import merge

# Set by a scheduled task: the name of the worker that runs it.
WORKER_VARIABLE = "FIRSTFLIGHT_WORKER"


def provenance(
    run: Run, vantage: str, repetition: int, tool_version: str, ruleset: str, out: Path
) -> merge.Provenance:
    """What is the same in all rows of one stage."""
    offset = clock.of(run, vantage, repetition)
    return merge.Provenance(
        run.id,
        vantage,
        repetition,
        tool_version,
        ruleset,
        run.name_of(out),
        None if offset is None else offset.offset_us,
        host=socket.gethostname(),
        worker=os.environ.get(WORKER_VARIABLE),
    )


def slot_columns(run: Run, vantage: str, repetition: int, report: StageReport) -> dict[str, Any]:
    """The columns that are the same in all watch_slot records of one stage."""
    offset = clock.of(run, vantage, repetition)
    return {
        "run": run.id,
        "vantage": vantage,
        "repetition": repetition,
        "clock_offset_us": None if offset is None else offset.offset_us,
        "tool_version": report.tool_version,
    }


def capture_name(run: Run, vantage: str, repetition: int) -> Callable[[str], str]:
    """How rows name a capture."""
    folder = run.stage_dir("capture", vantage, repetition)
    return lambda name: run.name_of(folder / name)
