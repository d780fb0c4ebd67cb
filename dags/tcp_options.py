"""Asks once a week from every vantage point which TCP options the names of downloads.toml agree to."""

from __future__ import annotations

from airflow.sdk import DAG, Asset, CronTriggerTimetable

from orchestration.airflow.measure import DAG_ARGUMENTS, measure, parameters
from orchestration.airflow.open_run import OpenSurvey
from orchestration.stages import Plan

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
run's id. Each vantage point then fetches its inputs from the centre, resolves the names, connects by TCP with
each address, offering all options, and loads its rows into the store. No data is sent over the connections.

**See the results:** at the centre `firstflight sql "SELECT vantage, cdn, avg(sack), avg(ecn) FROM tcp_option
WHERE run = 'RUN' GROUP BY ALL"`.

**Before you unpause it:** `[tcp_options]` of downloads.toml sets share and rate; the limits of `[probe]`
there hold, too.

**Run it now:** unpause it: the survey of this week begins immediately, and those of later weeks
automatically. *Trigger*, at the top right, starts another one; its form has the parameters.

**Where tasks run:** those of a vantage point only on its worker (queue). It waits for a scan there, and scans
wait for it (pool `scan_NAME`; with shards that of the first).

**Stop it:** pause the DAG: it ends in order and continues when the DAG is unpaused. `firstflight runs stop
RUN` at the centre ends one run permanently; its rows are loaded.

**When something fails:** the task's log ends with one sentence, and docs/operations.md has a page for each
part. A retried stage continues where it stopped; rows are loaded exactly once.
""",
):
    run = OpenSurvey(task_id="open", as_data=Asset("as_data")).output
    measure(Plan.SURVEY, run, parts=lambda vantage: vantage.survey_parts, rows=Asset("tcp_option"))
