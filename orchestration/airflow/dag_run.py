"""What a task is told of its DAG's run: who asked for it, and for which period."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestration.airflow import due

if TYPE_CHECKING:
    from airflow.sdk import Context

# As Airflow calls the runs that a schedule plans. A logical date does not tell them: the page gives one to
# runs that a person starts, too.
PLANNED = ("scheduled", "backfill")


def is_planned(context: Context) -> bool:
    """Whether the DAG's run is one that its schedule planned (or a backfill of such), not a person's."""
    return context["dag_run"].run_type in PLANNED


def period_of(context: Context) -> due.Period:
    """The period of a DAG's run of cdn_watch; every task of the run, and every try, is told the same."""
    dag_run, params = context["dag_run"], context["params"]
    if is_planned(context) and dag_run.logical_date is not None:
        return due.hour_after(dag_run.logical_date)
    asked = dag_run.start_date or dag_run.run_after
    return due.by_hand(asked, params["begins_after_s"], params["period_minutes"])
