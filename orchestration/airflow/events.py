"""Selects the list and the table for a run from the extras of asset events, without Airflow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date as Date
from typing import Any

from firstflight.errors import FirstflightError

Extra = Mapping[str, Any]


def newest(name: str, extras: Iterable[Extra], dag: str | None = None) -> Extra:
    """Return the last event with the newest date. It need not be the last event, because of backfills.

    FirstflightError if the asset `name` was never published by `dag` (`None`: the DAG of the same name).
    """
    published = [extra for extra in extras if extra.get("run")]
    if not published:
        raise FirstflightError(f"the asset {name} was never published: run the DAG {dag or name} first")
    return max(reversed(published), key=lambda extra: str(extra["date"]))


def why_no_scan(
    taken: Mapping[str, Extra], triggered_by: Iterable[Extra], today: Date, max_age_days: int
) -> str | None:
    """Return why a run with these events (stage -> extra) must not start; `None` if it may start.

    `triggered_by`: the events that started the run; empty for a manual run. A backfill of old lists must not
    start a run with today's list, because a run sends packets.
    """
    for name, extra in taken.items():
        age = (today - Date.fromisoformat(str(extra["date"]))).days
        if age > max_age_days:
            return (
                f"the newest {name} is of {extra['date']}, {age} days old, and max_age_days is "
                f"{max_age_days}: run the DAG {name} for a newer day, or allow more"
            )
    published = {extra.get("run") for extra in triggered_by}
    if published and not published & {extra["run"] for extra in taken.values()}:
        return "only older lists and tables were published (a backfill); the newest ones are already in use"
    return None
