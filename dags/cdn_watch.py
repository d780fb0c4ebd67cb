"""Probes names once a minute, and owned ones sixty times a minute, from every vantage point."""

from __future__ import annotations

from datetime import timedelta

import pendulum
from airflow.sdk import DAG, Asset, CronTriggerTimetable, Param, TaskGroup, task

from orchestration.airflow.centre import LoadCentre
from orchestration.airflow.dag_run import period_of
from orchestration.airflow.open_run import OpenWatch
from orchestration.airflow.operators import (
    ACTIVE_TASKS,
    RETRIES,
    RETRY_DELAY_S,
    at_vantage,
    vantage_points,
)
from orchestration.airflow.stage_operators import FetchInputs, stage_tasks
from orchestration.stages import RunPlan

ROWS = Asset("watch_slot")
VANTAGE_POINTS = vantage_points()
NAMES = [vantage.name for vantage in VANTAGE_POINTS]
# A period does not wait for retries, so a late retry misses slots. A task that is too late for all slots
# still records them, so it is retried for a day.
SOON = {
    **RETRIES,
    "retries": 300,
    "retry_delay": timedelta(seconds=min(15.0, RETRY_DELAY_S)),
    "max_retry_delay": timedelta(minutes=5),
}

with DAG(
    "cdn_watch",
    description="First answers of a few names, every minute of every hour",
    # Early enough for vantage points to fetch their inputs before the hour starts.
    schedule=CronTriggerTimetable("55 * * * *", timezone="UTC"),
    start_date=pendulum.datetime(2024, 1, 1, tz="UTC"),
    catchup=False,
    is_paused_upon_creation=True,
    # The DAG runs for a vantage point that is down stay open until it is back, for two days; other hours and
    # other vantage points do not wait for them.
    max_active_runs=64,
    max_active_tasks=ACTIVE_TASKS,
    dagrun_timeout=timedelta(days=2),
    default_args=RETRIES,
    tags=["firstflight"],
    params={
        "vantage_points": Param(
            NAMES, type="array", items={"enum": NAMES}, minItems=1, uniqueItems=True, title="Vantage points"
        ),
        "period_minutes": Param(
            60, type="number", exclusiveMinimum=0, maximum=1440, description="Only for a manual run."
        ),
        "begins_after_s": Param(
            120, type="number", minimum=0, description="Only for a manual run: seconds from now."
        ),
        "minute_s": Param(
            None,
            type=["null", "number"],
            minimum=0.5,
            description="Length of a minute; change it only in the lab.",
        ),
    },
    doc_md="""
### How does an edge behave from minute to minute?

Each run is one hour: every vantage point probes the names of `watch.toml` once a minute, and the names under
`owned` sixty times a minute. One task per vantage point and hour schedules the probes itself; Airflow only
starts the task, five minutes early. A slot that was not probed is a row with the reason. The periods in a day
share a run; the hour's number plus one is the repetition.

**See the results:** at the centre `firstflight query watch_hourly --param cdn=Cloudflare` (medians and
quartiles), `firstflight query watch_names` (the answers of each name), `firstflight sql "SELECT * FROM
watch_coverage"` (slots, skipped slots, reasons).

**Run it now:** unpause it: the rest of this hour starts immediately, and every later hour automatically.
*Trigger*, at the top right, starts a single period (`period_minutes`, starting `begins_after_s` from now);
do not change the logical date. A single period replaces the scheduled period for that time: limits apply to
both together, so the hour's slots are skipped (`limit`).

**Before you unpause it:** `watch.toml` names the list. Under `owned`, enter a name only if its owner agreed.
A watch that could exceed a limit does not start.

**Stop it:** pause the DAG. Probing stops gracefully within seconds; the rest of the hour is recorded as
skipped (`stopped`), or probed if the DAG is unpaused within the hour. `firstflight runs stop RUN` at the
centre (RUN is the value of `open`) stops the day's watch permanently.

**When something fails:** the last line of the task's log is the error. A retried task continues with the rest
of the hour, and records missed slots as skipped. If hours were not scheduled because the centre was down,
*Backfill* records them as skipped, and sends no packets. docs/reference/site-failures.md
lists other failures.
""",
):
    run = OpenWatch(task_id="open", inputs={"as_data": Asset("as_data")}, **SOON).output
    LoadCentre(task_id="load_run", run=run)

    @task
    def period(**context) -> int:  # type: ignore[no-untyped-def]
        """Return the number of the period within the run."""
        return period_of(context).number  # type: ignore[arg-type]

    @task.branch
    def choose(**context) -> list[str]:  # type: ignore[no-untyped-def]
        """Skip the vantage points that the parameters exclude, without using their workers."""
        return [f"{name}.fetch_inputs" for name in context["params"]["vantage_points"]]

    number = period()
    chosen = choose()
    run >> chosen
    for vantage in VANTAGE_POINTS:
        with TaskGroup(vantage.name):
            here = FetchInputs(
                task_id="fetch_inputs", vantage=vantage.name, run=run, **{**SOON, **at_vantage(vantage)}
            ).output
            chosen >> here
            common = {"vantage": vantage.name, "run": here, "repetition": number, **at_vantage(vantage)}
            sends = {**SOON, "pool": vantage.watch_pool}
            stage_tasks(RunPlan.WATCH, common, sends, rows=ROWS)
