"""Selects the list and the table for a run from the extras of asset events, without Airflow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date as Date
from typing import Any, Protocol

from firstflight.errors import FirstflightError

Extra = Mapping[str, Any]


class Event(Protocol):
    """An asset event as Airflow returns it; the centre enters the DAG of the task that published it."""

    extra: Any
    source_dag_id: str | None


def published_by(dag: str, found: Iterable[Event]) -> list[Extra]:
    """Return the extras of the events that tasks of `dag` published.

    A worker's task can publish events of any asset, but only tasks of the centre fetch lists and tables.
    """
    return [event.extra or {} for event in found if event.source_dag_id == dag]


def newest(name: str, extras: Iterable[Extra], dag: str | None = None) -> Extra:
    """Return the event with the newest date; if several have that date, the last one.

    After a backfill, the last event can have an older date.

    Events without a run or a date do not count.
    FirstflightError if the asset `name` was never published by `dag` (`None`: the DAG of the same name).
    """
    published = [extra for extra in extras if extra.get("run") and _is_date(extra.get("date"))]
    if not published:
        raise FirstflightError(f"the asset {name} was never published: run the DAG {dag or name} first")
    return max(reversed(published), key=lambda extra: str(extra["date"]))


def _is_date(value: object) -> bool:
    try:
        Date.fromisoformat(str(value))
    except ValueError:
        return False
    return True


def why_no_scan(
    taken: Mapping[str, Extra], triggered_by: Iterable[Event], today: Date, max_age_days: int
) -> str | None:
    """Return why a run with these events (stage -> extra) must not start; `None` if it may start.

    `triggered_by`: the events that started the run; empty for a manual run. A backfill of old lists must not
    start a run with today's list, because a run sends packets. Nor must an event of another DAG.
    """
    for name, extra in taken.items():
        age = (today - Date.fromisoformat(str(extra["date"]))).days
        if age > max_age_days:
            return (
                f"the newest {name} is of {extra['date']}, {age} days old, and max_age_days is "
                f"{max_age_days}: run the DAG {name} for a newer day, or allow more"
            )
    triggers = list(triggered_by)
    published = {extra.get("run") for dag in taken for extra in published_by(dag, triggers)}
    if triggers and not published:
        return (
            f"the events that started this run are not of {' or '.join(taken)}: to start a run now, trigger "
            "this DAG"
        )
    if published and not published & {extra["run"] for extra in taken.values()}:
        return "only older lists and tables were published (a backfill); the newest ones are already in use"
    return None
