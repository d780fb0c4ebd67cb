"""A stage's speed and remaining time."""

from __future__ import annotations

from collections import deque
from datetime import timedelta
from typing import NamedTuple

# Seconds over which the speed is averaged. A longer span would lag after a change; a shorter one would jump.
WINDOW_S = 30.0
# Minimum span for a useful speed.
SHORTEST_S = 2.0


class Speed:
    """Units per second over the last half minute.

    Units before the first note (from an earlier attempt) do not count.
    """

    def __init__(self) -> None:
        self._notes: deque[tuple[float, int]] = deque()

    def note(self, now: float, done: int) -> None:
        """Note that `done` units were complete at `now` (seconds on a monotonic clock)."""
        self._notes.append((now, done))
        while len(self._notes) > 2 and now - self._notes[1][0] >= WINDOW_S:
            self._notes.popleft()

    def per_s(self) -> float | None:
        """Return the units per second; `None` if it is too early to tell."""
        if not self._notes:
            return None
        (started, done_before), (now, done) = self._notes[0], self._notes[-1]
        return (done - done_before) / (now - started) if now - started >= SHORTEST_S else None


class ProgressState(NamedTuple):
    """A stage's progress at one moment; `None`: unknown. `limit`: what limits the speed."""

    label: str
    done: int
    total: int | None
    per_s: float | None = None
    limit: str | None = None

    @property
    def left_s(self) -> float | None:
        """Seconds until completion at this speed; `None` if unknown or infinite."""
        if self.total is None or not self.per_s:
            return None
        return max(0.0, (self.total - self.done) / self.per_s)

    @property
    def pace(self) -> str:
        """Known values of speed, remaining time and limit: `480/s, 0:02:47 left, limit: rate`."""
        parts = []
        if self.per_s is not None:
            parts.append(f"{self.per_s:,.0f}/s" if self.per_s >= 10 else f"{self.per_s:.1f}/s")
        if self.left_s is not None:
            parts.append(f"{timedelta(seconds=round(self.left_s))} left")
        if self.limit is not None:
            parts.append(f"limit: {self.limit}")
        return ", ".join(parts)

    def __str__(self) -> str:
        counted = f"{self.label} {self.done}" + (f"/{self.total}" if self.total is not None else "")
        return f"{counted} ({self.pace})" if self.pace else counted
