"""Fetches routing table, AS organisations and CDN map once a day (docs/reference/site.md)."""

from __future__ import annotations

import pendulum
from airflow.sdk import DAG, Asset

from orchestration.airflow.centre import FetchForDay
from orchestration.airflow.operators import RETRIES

AS_DATA = Asset("as_data")

with DAG(
    "as_data",
    description="The day's routing table, with AS and CDN of every prefix",
    schedule="@daily",
    start_date=pendulum.datetime(2024, 1, 1, tz="UTC"),
    catchup=False,
    max_active_runs=1,
    default_args=RETRIES,
    tags=["firstflight"],
    doc_md="""
### Which AS and CDN does an address belong to?

Fetches the day's newest routing table (RouteViews, IPv4 and IPv6) and the AS data of site.toml, `[as_data]`,
converts them, and publishes the asset `as_data` with date, number of prefixes and counts of omitted routes. A
truncated table is rejected as a whole and fetched again.

**Run it now:** *Trigger*, at the top right; no parameters. **An older day:** *Backfill*, or
`airflow backfill create --dag-id as_data --from-date 2024-08-01 --to-date 2024-08-07`; RouteViews keeps all
tables. Older tables start no scan.

**When it fails:** the last line of the task's log is the error; the task is tried again after 2, 4, 8 ...
minutes.
""",
):
    FetchForDay(task_id="fetch", stage="as_data", asset=AS_DATA)
