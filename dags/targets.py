"""Fetches the list of names once a day (docs/reference/site.md)."""

from __future__ import annotations

import pendulum
from airflow.sdk import DAG, Asset

from orchestration.airflow.centre import FetchForDay
from orchestration.airflow.operators import RETRIES

TARGETS = Asset("targets")

with DAG(
    "targets",
    description="The day's list of names to measure",
    schedule="@daily",
    start_date=pendulum.datetime(2024, 1, 1, tz="UTC"),
    catchup=False,
    max_active_runs=1,
    default_args=RETRIES,
    tags=["firstflight"],
    doc_md="""
### Which names are measured?

Fetches the target list of the run's day (site.toml, `[targets]`), checks every line, and publishes the asset
`targets` with date, list id, number of names and of rejected lines. `quic_scan` starts when this asset and
`as_data` are both updated.

**Run it now:** *Trigger*, at the top right; no parameters. **An older day:** *Backfill*, or
`airflow backfill create --dag-id targets --from-date 2024-08-01 --to-date 2024-08-07`: the publisher keeps
past lists. Older lists start no scan.

**When it fails:** the last line of the task's log is the error; the task is tried again after 2, 4, 8 ...
minutes.
""",
):
    FetchForDay(task_id="fetch", stage="targets", asset=TARGETS)
