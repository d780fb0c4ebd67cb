"""DAG arguments, parameters and tasks of the schedules that measure from every vantage point."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pendulum
from airflow.sdk import Asset, Param, TaskGroup, TriggerRule, task, task_group

from orchestration.airflow.centre import Gather, LoadCentre, ReportRun
from orchestration.airflow.operators import ACTIVE_TASKS, RETRIES, at_vantage, vantage_points
from orchestration.airflow.stage_operators import FetchInputs, stage_tasks
from orchestration.site.vantage_points import ScanPart, SiteVantagePoint
from orchestration.stages import LONGEST, RunPlan

VANTAGE_POINTS = vantage_points()

DAG_ARGUMENTS: dict[str, Any] = {
    "start_date": pendulum.datetime(2024, 1, 1, tz="UTC"),
    "catchup": False,
    # Runs wait for a vantage point that is down, and do not block other runs. A repetition that has not
    # started three days after its due time is skipped.
    "max_active_runs": 64,
    "max_active_tasks": ACTIVE_TASKS + sum(2 * (vantage.shards - 1) for vantage in VANTAGE_POINTS),
    "dagrun_timeout": LONGEST,
    "default_args": RETRIES,
    "tags": ["firstflight"],
}


def parameters(*, max_age_days: int) -> dict[str, Param]:
    """Return the parameters that all these DAGs have; `max_age_days`: a default."""
    names = [vantage.name for vantage in VANTAGE_POINTS]
    return {
        "repetitions": Param(1, type="integer", minimum=1, maximum=100, title="Repetitions"),
        "repetition_interval_minutes": Param(
            1440,
            type="number",
            minimum=0,
            description="Time between the starts of two repetitions; at least a day, except in the lab.",
        ),
        "vantage_points": Param(
            names, type="array", items={"enum": names}, minItems=1, uniqueItems=True, title="Vantage points"
        ),
        "max_age_days": Param(
            max_age_days,
            type="integer",
            minimum=0,
            description="Maximum age of the list or table in days; an older one starts no run.",
        ),
        "report_after_minutes": Param(
            720,
            type="number",
            minimum=0,
            description="How long the report waits for vantage points. It names the missing ones.",
        ),
    }


def measure(
    plan: RunPlan,
    run: Any,
    *,
    parts: Callable[[SiteVantagePoint], Sequence[ScanPart]],
    rows: Asset,
    report: Asset | None = None,
) -> None:
    """Add all tasks after `run` was opened to the current DAG: load, measure everywhere, report.

    `run`: the output of the task that opens the run. `parts`: returns the groups of tasks that run
    concurrently at a vantage point, with their pools. `rows`: the asset that each load at a vantage point
    updates. `report`: the asset that the report updates.
    """
    LoadCentre(task_id="load_run", run=run)

    @task
    def repetitions(**context: Any) -> list[int]:
        """Return the numbers of the repetitions, from 1."""
        return list(range(1, context["params"]["repetitions"] + 1))

    @task.branch
    def choose(**context: Any) -> list[str]:
        """Skip the vantage points that the parameters exclude, without using their workers."""
        return [f"{name}.fetch_inputs" for name in context["params"]["vantage_points"]]

    numbers = repetitions()
    chosen = choose()
    run >> [numbers, chosen]
    ends, last = [], []
    for vantage in VANTAGE_POINTS:
        with TaskGroup(vantage.name):
            here = FetchInputs(
                task_id="fetch_inputs", vantage=vantage.name, run=run, **at_vantage(vantage)
            ).output
            chosen >> here
            for part in parts(vantage):

                @task_group(group_id=part.group)
                def repetition(
                    number: Any, here: Any = here, vantage: SiteVantagePoint = vantage, part: ScanPart = part
                ) -> None:
                    """Run a repetition at this vantage point, or the part for a single shard."""
                    common = {
                        "vantage": vantage.name,
                        "run": here,
                        "repetition": number,
                        "shard": str(part.shard),
                        **at_vantage(vantage),
                    }
                    sends = {"pool": part.pool, "max_active_tis_per_dagrun": 1}
                    stage_tasks(plan, common, sends, rows=rows)

                ends.append(repetition.expand(number=numbers))
                last.append(f"{vantage.name}.{part.group}.load")

    gathered = Gather(task_id="gather", run=run, ends=last)
    reported = ReportRun(task_id="report", run=run, outlets=[] if report is None else [report])
    late = ReportRun(task_id="late_report", run=run, late=True, trigger_rule=TriggerRule.ALL_DONE)
    gathered >> reported >> late
    ends >> late
