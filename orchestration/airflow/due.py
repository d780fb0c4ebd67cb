"""When what is due: periods of a watch, repetitions of a scan, its report. Times are UTC.

Pure reckoning, without Airflow: what an operator knows of its run goes in as arguments.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from firstflight.errors import UsageError

HOUR_S = 3600.0
# A repetition that has not begun by then is left out: its vantage point has been down for days.
TOO_LATE = timedelta(days=3)
# How long a scan may take, repetitions and all.
LONGEST = timedelta(days=30)
# What vantage points get to load what they have, once a run is told to stop.
AFTER_STOP = timedelta(minutes=5)


class Period(NamedTuple):
    """A period of a watch: when it begins, how many seconds it lasts, its number within its run."""

    begins: datetime
    length_s: float
    number: int


def hour_after(due: datetime) -> Period:
    """The period of a planned run that was due then: the next full hour, numbered by the hour of the day."""
    begins = due.astimezone(UTC).replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
    return Period(begins, HOUR_S, begins.hour + 1)


def by_hand(asked: datetime, after_s: float, minutes: float) -> Period:
    """The period of a run that a person asked for: the only one of its run."""
    return Period(asked.astimezone(UTC) + timedelta(seconds=after_s), minutes * 60.0, 1)


def repetition(started: datetime, interval_s: float, number: int) -> datetime:
    """When repetition `number` (from 1) is due; intervals count from the run's start."""
    return started + timedelta(seconds=interval_s * (number - 1))


def check_length(interval_s: float, repetitions: int) -> None:
    """UsageError if the last repetition could not come to its end within `LONGEST`."""
    takes = timedelta(seconds=interval_s * (repetitions - 1))
    if takes + TOO_LATE > LONGEST:
        raise UsageError(
            f"{repetitions} repetitions, {interval_s / 60:g} minutes apart, take {takes.days} days, and a "
            f"run ends after {LONGEST.days}: ask for fewer, or start a second run later"
        )


def report(
    started: datetime, interval_s: float, repetitions: int, wait_minutes: float, stopped: datetime | None
) -> datetime:
    """Until when a report waits for vantage points: `wait_minutes` from the last repetition's time on.

    `stopped`: when the run was told to stop, None if it was not.
    """
    due = repetition(started, interval_s, repetitions) + timedelta(minutes=wait_minutes)
    return due if stopped is None else min(due, stopped + AFTER_STOP)
