"""Computes due times: a watch's periods, a scan's repetitions, its report. Times are UTC.

Pure computation, without Airflow: operators pass the values of their run as arguments.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from datetime import date as Date
from typing import NamedTuple

from firstflight.errors import UsageError
from orchestration.stages import LONGEST

HOUR_S = 3600.0
# A repetition that has not started this long after its due time is skipped, because its vantage point was
# down.
TOO_LATE = timedelta(days=3)
# Time for vantage points to load their rows after a run is stopped.
AFTER_STOP = timedelta(minutes=5)


class DuePeriod(NamedTuple):
    """A period of a watch: begin, length in seconds, number within the run."""

    begins: datetime
    length_s: float
    number: int


def hour_after(due: datetime) -> DuePeriod:
    """Return the period for a scheduled run due then: the next full hour, numbered by the hour of the day."""
    begins = due.astimezone(UTC).replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
    return DuePeriod(begins, HOUR_S, begins.hour + 1)


def manual(requested: datetime, after_s: float, minutes: float) -> DuePeriod:
    """Return a manual run's single period."""
    return DuePeriod(requested.astimezone(UTC) + timedelta(seconds=after_s), minutes * 60.0, 1)


def repetition(started: datetime, interval_s: float, number: int) -> datetime:
    """Return when repetition `number` (from 1) is due; intervals count from the run's start."""
    return started + timedelta(seconds=interval_s * (number - 1))


def is_scan_due(when: str, day: Date) -> bool:
    """Return whether a run with the list of `day` scans networks in its repetitions.

    `when`: `always`, `never`, or `weekly`, only with the list of a Monday.
    """
    return when == "always" or (when == "weekly" and day.isoweekday() == 1)


def check_length(interval_s: float, repetitions: int) -> None:
    """Raise UsageError if the last repetition could not finish within `LONGEST`."""
    takes = timedelta(seconds=interval_s * (repetitions - 1))
    if takes + TOO_LATE > LONGEST:
        raise UsageError(
            f"{repetitions} repetitions, {interval_s / 60:g} minutes apart, take {takes.days} days, and a "
            f"run ends after {LONGEST.days}: use fewer repetitions, or start a second run later"
        )


def report(
    started: datetime, interval_s: float, repetitions: int, wait_minutes: float, stopped: datetime | None
) -> datetime:
    """Return a report's deadline: `wait_minutes` after the last repetition is due.

    `stopped`: when the run was stopped, `None` if it was not.
    """
    due = repetition(started, interval_s, repetitions) + timedelta(minutes=wait_minutes)
    return due if stopped is None else min(due, stopped + AFTER_STOP)
