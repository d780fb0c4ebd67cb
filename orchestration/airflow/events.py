"""Which list and which table a run takes: rules over the extras of asset events, without Airflow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date as Date
from typing import Any

from firstflight.errors import FirstflightError

Extra = Mapping[str, Any]


def newest(name: str, extras: Iterable[Extra]) -> Extra:
    """The event with the newest date, and of those the last: not always the last of all, as backfills come
    late.

    FirstflightError if the asset `name` was never published.
    """
    published = [extra for extra in extras if extra.get("run")]
    if not published:
        raise FirstflightError(f"the asset {name} was never published: run the DAG {name} first")
    return max(reversed(published), key=lambda extra: str(extra["date"]))


def why_no_scan(
    taken: Mapping[str, Extra], triggered_by: Iterable[Extra], today: Date, max_age_days: int
) -> str | None:
    """Why a scan of these events (asset -> extra) should not begin; None if it should.

    `triggered_by`: the events that started it, none if a person did. A scan sends packets: filling lists of
    the past back does not start one on today's.
    """
    for name, extra in taken.items():
        age = (today - Date.fromisoformat(str(extra["date"]))).days
        if age > max_age_days:
            return (
                f"the newest {name} is of {extra['date']}, {age} days old, and max_age_days is "
                f"{max_age_days}: run the DAG {name} for a newer day, or allow more"
            )
    came = {extra.get("run") for extra in triggered_by}
    if came and not came & {extra["run"] for extra in taken.values()}:
        return "only older lists and tables have come (a backfill); the newest was scanned when it came"
    return None
