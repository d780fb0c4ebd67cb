"""What a campaign writes down about itself: the manifest's stages, and the sums over the whole run."""

from __future__ import annotations

from collections import Counter
from typing import Any

from firstflight.errors import FirstflightError
from firstflight.run import accounting
from firstflight.run.report import StageReport
from firstflight.run.run import Run


def stage_entries(run: Run) -> list[dict[str, Any]]:
    """One entry per stage that ever started, for the manifest.

    A stage whose report still says `running` although nobody holds its lock was killed: `cut`.
    """
    return [_entry(run, report) for report in run.reports()]


def write_state(run: Run, state: str, **more: object) -> None:
    """Bring the manifest up to date: state, all stages with their counts and hashes."""
    run.write_manifest({**run.manifest, "state": state, "stages": stage_entries(run), **more})


def _entry(run: Run, report: StageReport) -> dict[str, Any]:
    state: str = report.state
    if state == "running" and not run.stage_is_held(report.stage, report.vantage, report.repetition):
        state = "cut"
    return {
        "stage": report.stage,
        "vantage": report.vantage,
        "repetition": report.repetition,
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
    """Counts over all finished probe stages: targets, sent, and one per outcome; checked to balance.

    The targets are counted anew in each targets.csv, the rows in each record file. Raises FirstflightError
    naming the first vantage point and repetition whose sums do not hold.
    """
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    sums: Counter[str] = Counter()
    for report in run.reports():
        if report.stage == "watch" and report.state == "done":
            sums.update(report.counts)
        if report.stage != "probe" or report.state != "done":
            continue
        assert report.vantage is not None and report.repetition is not None
        where = f"{report.vantage}, repetition {report.repetition}"
        folder = run.stage_dir("probe", report.vantage, report.repetition)
        with (folder / "targets.csv").open("rb") as file:
            lines = sum(1 for _ in file) - 1
        rows = pq.ParquetFile(run.quic_probe(report.vantage, report.repetition)).read(["outcome", "attempts"])
        by_outcome = {
            str(entry["values"]): int(entry["counts"])
            for entry in pc.value_counts(rows["outcome"]).to_pylist()
        }
        sent = sum(1 for attempts in rows["attempts"].to_pylist() if attempts > 0)
        rejected = len(report.rejected)
        accounting.balance(lines - rejected, sent, by_outcome, where)
        if report.counts != {"sent": sent, **by_outcome}:
            raise FirstflightError(f"{where}: quic_probe.parquet does not hold what the stage reported")
        sums.update({"targets": lines, "rejected": rejected, "sent": sent, **by_outcome})
    return dict(sums)
