"""A scheduled run's outcome: rows in the store per vantage point, and missing parts."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from firstflight.layout import StageKey
from firstflight.run.run import Run
from firstflight.shard import parse
from orchestration import stages
from store import open_store

VARIABLE = "FIRSTFLIGHT_REPORTS"


@dataclass(frozen=True)
class RunOutcome:
    """Rows in the store per vantage point, over all repetitions, and the parts that were not loaded."""

    rows: dict[str, int]
    missing: list[StageKey]

    def sentences(self) -> Iterator[str]:
        """Yield the outcome as messages."""
        counts = ", ".join(f"{rows} from {vantage}" for vantage, rows in self.rows.items())
        yield f"rows in the store: {counts or 'none'}"
        for part in self.missing:
            yield f"missing: {part}"


def of(run: Run) -> RunOutcome:
    """Query the store (FIRSTFLIGHT_STORE) for the rows of `run`. A loaded empty part is not missing.

    Only rows of the plan's main stage count.
    """
    kind = stages.main(stages.plan_of(run)).kinds[0]
    with open_store() as store:
        database = store.dialect.database
        rows = store.rows(
            f"SELECT vantage, repetition, count() AS n FROM {database}.{kind} "
            "WHERE run = {run:String} GROUP BY vantage, repetition",
            {"run": run.id},
        )
        units = store.rows(
            f"SELECT unit FROM {database}.load_file FINAL "
            "WHERE kind = {kind:String} AND run = {run:String} AND state = 'loaded'",
            {"kind": kind, "run": run.id},
        )
    # Run, vantage point, repetition (schemas/records/KIND.yaml, unit), and a part's shard.
    unit_keys = [json.loads(unit["unit"]) for unit in units]
    loaded = {run.key(vantage, int(number), *map(parse, shard)) for _, vantage, number, *shard in unit_keys}
    counts = {run.key(str(row["vantage"]), int(row["repetition"])): int(row["n"]) for row in rows}
    names = run.manifest.get("vantage_points") or [vantage.name for vantage in run.settings.vantage]
    numbers = range(1, run.settings.campaign.repetitions + 1)
    expected = [key for name in names for n in numbers for key in stages.keys(run, name, n)]
    by_vantage = {name: sum(n for part, n in counts.items() if part.vantage == name) for name in names}
    return RunOutcome(by_vantage, [part for part in expected if part not in loaded])


def write(run: Run, outcome: RunOutcome) -> None:
    """Write the outcome to the run's manifest, which `load` copies to the store."""
    message = None
    if outcome.missing:
        message = f"missing: {'; '.join(str(part) for part in outcome.missing)}"
    state = "failed" if outcome.missing else "done"
    run.write_manifest(
        {
            **run.manifest,
            "state": "stopped" if run.layout.stop_file.exists() else state,
            "ended_at": datetime.now(UTC).isoformat(),
            "rows": outcome.rows,
            "missing": [str(part) for part in outcome.missing],
            "message": message,
        }
    )


def is_written(run: Run, outcome: RunOutcome) -> bool:
    """Return whether the manifest already holds this outcome."""
    manifest = run.manifest
    return (manifest.get("rows"), manifest.get("missing")) == (
        outcome.rows,
        [str(part) for part in outcome.missing],
    )


def make_page(run: Run, firstflight: Callable[..., None]) -> None:
    """Create a scan's report below FIRSTFLIGHT_REPORTS (default: `reports` next to the folder of runs).

    The tables of downloads are printed instead; a survey has no report.
    """
    plan = stages.plan_of(run)
    if plan is stages.RunPlan.DOWNLOADS:
        firstflight("report", "downloads", "--run", run.id)
    if plan is not stages.RunPlan.SCAN:
        return
    folder = Path(os.environ.get(VARIABLE) or run.path.parent.parent / "reports") / run.id
    firstflight("report", "--out", str(folder), "--run", run.id)
