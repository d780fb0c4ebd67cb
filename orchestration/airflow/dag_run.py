"""The trigger and the period for a DAG run."""

from __future__ import annotations

from datetime import UTC, datetime
from datetime import date as Date
from typing import TYPE_CHECKING

from orchestration.airflow import due

if TYPE_CHECKING:
    from airflow.sdk import Context

# Airflow's run types of scheduled runs. The logical date does not identify them: the web page sets one for
# manual runs too.
PLANNED = ("scheduled", "backfill")


def is_planned(context: Context) -> bool:
    """Return whether the DAG run is a scheduled one (or a backfill of such), not a manual one."""
    return context["dag_run"].run_type in PLANNED


def day_of(context: Context) -> Date:
    """Return the day (UTC) for a daily or weekly run: from its logical date, else today."""
    at = context["dag_run"].logical_date or datetime.now(UTC)
    return at.astimezone(UTC).date()


def period_of(context: Context) -> due.DuePeriod:
    """Return the period for a DAG run of cdn_watch; the same for every task and every try of the run."""
    dag_run, params = context["dag_run"], context["params"]
    if is_planned(context) and dag_run.logical_date is not None:
        return due.hour_after(dag_run.logical_date)
    requested = dag_run.start_date or dag_run.run_after
    return due.manual(requested, params["begins_after_s"], params["period_minutes"])
