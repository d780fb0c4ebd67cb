"""Runs the instant-ACK campaign from every vantage point, when a new list and a new table are available."""

from __future__ import annotations

import pendulum
from airflow.sdk import DAG, Asset, Param, TaskGroup, TriggerRule, chain, task, task_group

from orchestration.airflow.centre import Gather, LoadCentre, Report
from orchestration.airflow.due import LONGEST
from orchestration.airflow.open_run import OpenScan
from orchestration.airflow.operators import (
    ACTIVE_TASKS,
    RETRIES,
    at_vantage,
    vantage_points,
)
from orchestration.airflow.stage_operators import FetchInputs, stage_tasks
from orchestration.stages import Plan

VANTAGE_POINTS = vantage_points()
NAMES = [vantage.name for vantage in VANTAGE_POINTS]
ROWS = Asset("quic_probe")

with DAG(
    "quic_scan",
    description="First answers of all names from every vantage point, for a new list and table",
    schedule=[Asset("targets"), Asset("as_data")],
    start_date=pendulum.datetime(2024, 1, 1, tz="UTC"),
    catchup=False,
    # Runs wait for a vantage point that is down; nothing waits for them. A repetition that has not begun
    # three days after its due time is skipped.
    max_active_runs=64,
    max_active_tasks=ACTIVE_TASKS + sum(2 * (vantage.shards - 1) for vantage in VANTAGE_POINTS),
    dagrun_timeout=LONGEST,
    default_args=RETRIES,
    tags=["firstflight"],
    params={
        "repetitions": Param(1, type="integer", minimum=1, maximum=100, title="Repetitions"),
        "repetition_interval_minutes": Param(
            1440,
            type="number",
            minimum=0,
            description="From the start of one repetition to the next: at least a day, less only in the lab.",
        ),
        "rate": Param(
            None,
            type=["null", "number"],
            exclusiveMinimum=0,
            description="New probes per second and vantage point, at most what vantage_points.toml allows.",
        ),
        "families": Param([4, 6], type="array", items={"enum": [4, 6]}, minItems=1, uniqueItems=True),
        "vantage_points": Param(
            NAMES, type="array", items={"enum": NAMES}, minItems=1, uniqueItems=True, title="Vantage points"
        ),
        "handshake_share": Param(
            0.01,
            type=["null", "number"],
            minimum=0,
            maximum=1,
            description="Share of the names to complete a handshake with, drawn by the run's seed; 0: none; "
            "null: as the site's settings say.",
        ),
        "max_age_days": Param(
            3, type="integer", minimum=0, description="An older list or table starts no scan."
        ),
        "report_after_minutes": Param(
            720,
            type="number",
            minimum=0,
            description="How long the report waits for vantage points; then it names those that are missing.",
        ),
    },
    doc_md="""
### How do the edges answer the first flight?

`open` creates a run with the newest list and routing table; its value (*XCom*) is the run's id, as in rows
and `firstflight runs`. Each vantage point then fetches its inputs from the centre and, per repetition,
resolves the names, probes them under capture, completes handshakes with a share of them, dissects its
capture, and loads its rows into the store.
`report` writes the page when all rows are loaded, or after `report_after_minutes`, and names missing vantage
points; `late_report` writes it again after the last one.

**Run it now:** *Trigger*, at the top right. Its form has the parameters; do not change the logical date. Both
lists must have been fetched (DAGs `targets`, `as_data`); the DAG starts automatically when there is a new one
of each.

**See the results:** the log of `report`, its page below `FIRSTFLIGHT_REPORTS`, or at the centre
`firstflight sql "SELECT vantage, outcome, count() FROM quic_probe WHERE run = 'RUN' GROUP BY ALL"`.

**Where tasks run:** those of a vantage point only on its worker (queue), one scan at a time (pool
`scan_NAME`; with shards a pool for each), at most `scan_rate` new probes per second. A vantage point that is
down delays no other: its tasks wait.

**Stop it:** pause the DAG. Probing ends gracefully within seconds, nothing is lost, and it continues when the
DAG is unpaused. `firstflight runs stop RUN` at the centre ends one run permanently; its rows are loaded and
reported.

**When something fails:** the task's log ends with one sentence, and docs/operations.md has a page for each
part. A retried stage continues where it stopped; rows are loaded exactly once.
""",
):
    run = OpenScan(task_id="open", targets=Asset("targets"), as_data=Asset("as_data")).output
    LoadCentre(task_id="load_run", run=run)

    @task
    def repetitions(**context) -> list[int]:  # type: ignore[no-untyped-def]
        """Return the numbers of the repetitions, from 1."""
        return list(range(1, context["params"]["repetitions"] + 1))

    @task.branch
    def choose(**context) -> list[str]:  # type: ignore[no-untyped-def]
        """Skip the vantage points that the parameters exclude, without using their workers."""
        return [f"{name}.fetch_inputs" for name in context["params"]["vantage_points"]]

    numbers = repetitions()
    chosen = choose()
    run >> [numbers, chosen]
    ends = []
    for vantage in VANTAGE_POINTS:
        with TaskGroup(vantage.name):
            here = FetchInputs(
                task_id="fetch_inputs", vantage=vantage.name, run=run, **at_vantage(vantage)
            ).output
            chosen >> here

            for part in vantage.scan_parts:

                @task_group(group_id=part.group)
                def repetition(number: int, here=here, vantage=vantage, part=part) -> None:  # type: ignore[no-untyped-def]
                    """Run one repetition at this vantage point, or of one of its shards."""
                    common = {
                        "vantage": vantage.name,
                        "run": here,
                        "repetition": number,
                        "shard": str(part.shard),
                        **at_vantage(vantage),
                    }
                    sends = {"pool": part.pool, "max_active_tis_per_dagrun": 1}
                    chain(*stage_tasks(Plan.SCAN, common, sends, rows=ROWS))

                ends.append(repetition.expand(number=numbers))

    last = [f"{vantage.name}.{part.group}.load" for vantage in VANTAGE_POINTS for part in vantage.scan_parts]
    gathered = Gather(task_id="gather", run=run, ends=last)
    report = Report(task_id="report", run=run, outlets=[Asset("quic_report")])
    late = Report(task_id="late_report", run=run, late=True, trigger_rule=TriggerRule.ALL_DONE)
    gathered >> report >> late
    ends >> late
