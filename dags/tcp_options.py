"""Surveys once a week, from every vantage point, the TCP options that names of downloads.toml agree to."""

from __future__ import annotations

from airflow.sdk import DAG, Asset, CronTriggerTimetable

from orchestration.airflow.measure import DAG_ARGUMENTS, measure, parameters
from orchestration.airflow.open_run import OpenSurvey
from orchestration.stages import RunPlan

with DAG(
    "tcp_options",
    description="The week's survey of TCP options, from every vantage point",
    schedule=CronTriggerTimetable("0 14 * * 1", timezone="UTC"),
    is_paused_upon_creation=True,
    **DAG_ARGUMENTS,
    params=parameters(max_age_days=3),
    doc_md="""
### Which TCP options do servers agree to?

`open` creates a run with the list of `downloads.toml` and the newest routing table; its value (*XCom*) is the
run's id. Each vantage point then fetches its inputs from the centre, resolves the names, opens a TCP
connection to each address, offering all options, and loads its rows into the store. The connections carry no
data.

**See the results:** at the centre `firstflight sql "SELECT vantage, cdn, avg(sack), avg(ecn) FROM tcp_option
WHERE run = 'RUN' GROUP BY ALL"`.

**Before you unpause it:** `[tcp_options]` of downloads.toml sets share and rate; the limits of `[probe]`
there apply, too.

**Run it now:** unpause it: the survey of this week starts immediately, and later surveys automatically.
*Trigger*, at the top right, starts another survey; its form has the parameters.

**Where tasks run:** a vantage point's tasks run only on its worker (queue). The survey and scans wait for
each other (pool `scan_NAME`; with shards the pool of the first shard).

**Stop it:** pause the DAG: the survey stops cleanly and continues when the DAG is unpaused. `firstflight runs
stop RUN` at the centre stops one run permanently; its rows are loaded.

**When something fails:** the last line of the task's log is the error, and docs/reference/site-failures.md
says what to do. A retried stage continues where it stopped; rows are loaded exactly once.
""",
):
    run = OpenSurvey(task_id="open", inputs={"as_data": Asset("as_data")}).output
    measure(RunPlan.SURVEY, run, parts=lambda vantage: vantage.survey_parts, rows=Asset("tcp_option"))
