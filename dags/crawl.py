"""Finds a file to download at each name of downloads.toml, once a week, from the centre."""

from __future__ import annotations

import pendulum
from airflow.sdk import DAG, Asset, CronTriggerTimetable

from orchestration.airflow.centre import CrawlFiles, LoadCentre
from orchestration.airflow.open_run import OpenCrawl
from orchestration.airflow.operators import RETRIES

DOWNLOAD_TARGETS = Asset("download_targets")

with DAG(
    "crawl",
    description="The week's files to download, one at each name of a list",
    schedule=CronTriggerTimetable("0 2 * * 1", timezone="UTC"),
    start_date=pendulum.datetime(2024, 1, 1, tz="UTC"),
    catchup=False,
    is_paused_upon_creation=True,
    # Limits per address apply only within a crawl.
    max_active_runs=1,
    default_args=RETRIES,
    tags=["firstflight"],
    doc_md="""
### Which file does a name offer?

`open` creates a run with the list of `downloads.toml`; its value (*XCom*) is the run's id. `crawl` visits the
web site of each name from the centre, obeys its robots.txt, and looks for a file of 1 to 10 MB; then it
publishes the asset `download_targets` with date, list id and counts by outcome. `load_run` loads its rows
into the store. `downloads` starts when this asset and `as_data` are updated.

**See the results:** at the centre `firstflight sql "SELECT outcome, count() FROM download_file WHERE run =
'RUN' GROUP BY ALL"`.

**Before you unpause it:** the requests contain `contact` of downloads.toml, and `[crawl]` there sets their
rate, by default one request per second and address.

**Run it now:** unpause it: the crawl of this week starts immediately, and later crawls automatically.
*Trigger*, at the top right, starts another crawl; no parameters.

**Stop it:** pause the DAG: the crawl stops cleanly, keeps its results, and continues when the DAG is
unpaused. `firstflight runs stop RUN` at the centre stops it permanently, and no asset is published.

**When it fails:** the last line of the task's log is the error; a crawl that is tried again continues where
it stopped.
""",
):
    run = OpenCrawl(task_id="open").output
    CrawlFiles(task_id="crawl", run=run, asset=DOWNLOAD_TARGETS) >> LoadCentre(task_id="load_run", run=run)
