"""The manifest's entries for stages, and the totals over the whole run."""

from __future__ import annotations

from collections import Counter
from typing import Any

from firstflight.run.report import StageReport
from firstflight.run.run import Run
from orchestration import stages


def stage_entries(run: Run) -> list[dict[str, Any]]:
    """Return one manifest entry per stage that ever started.

    A stage in state `running` that holds no lock was killed; the entry has the state `cut`.
    """
    return [_entry(run, report) for report in run.reports()]


def write_state(run: Run, state: str, **more: object) -> None:
    """Update the manifest: state, and all stages with their counts and hashes."""
    run.write_manifest({**run.manifest, "state": state, "stages": stage_entries(run), **more})


def _entry(run: Run, report: StageReport) -> dict[str, Any]:
    state: str = report.state
    if state == "running" and not run.stage_is_running(report):
        state = "cut"
    return {
        "stage": report.stage,
        "vantage": report.vantage,
        "repetition": report.repetition,
        **({} if report.shard is None else {"shard": report.shard}),
        "state": state,
        "started_at": report.started_at.isoformat(),
        "ended_at": report.ended_at.isoformat() if report.ended_at else None,
        "rows_in": report.rows_in,
        "rows_out": report.rows_out,
        "rejected": len(report.rejected),
        "counts": report.counts,
        "facts": report.facts,
        "warnings": report.warnings,
        "outputs": report.outputs,
        "message": report.message,
    }


def totals(run: Run) -> dict[str, int]:
    """Return the totals over all finished stages that measure, each counted as the table of stages defines.

    Raises FirstflightError, with vantage point and repetition, at the first report with inconsistent sums.
    """
    sums: Counter[str] = Counter()
    for stage, report in stages.of_reports(run):
        if stage.measures is not None and report.state == "done":
            sums.update(stage.count(run, report))
    return dict(sums)
