"""One watch at a time at a vantage point: who sends when two are at work there.

A watch has the limits of its vantage point for itself. One that gives way (`watch.gives_way`: of a schedule,
the hour's to one that a person started) sends only while no other is at work, so both together never send
more than one would. They tell each other by locks beside the runs, which end with their holders.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from firstflight.run.run import Run
from firstflight.system import lock
from scanner.planned.probes import AHEAD_NS, SECOND_NS

# So long before its period a watch is at work: what the other had handed over by then has left, and the gap
# that limits ask for has passed.
BEFORE_NS = AHEAD_NS + 3 * SECOND_NS
# Why slots that are left to the other were skipped (schemas/records/watch_slot.yaml).
REASON = "limit"


class Precedence:
    """Of one watch stage whose period begins at `begins_ns` (UTC). A context manager.

    `skipped` counts the slots that were left to the other.
    """

    def __init__(self, run: Run, vantage: str, begins_ns: int) -> None:
        self._first = run.path.parent / f"watch-{vantage}.lock"
        self._second = run.path.parent / f"watch-{vantage}-gives-way.lock"
        self._gives_way = run.settings.watch.gives_way
        self._from_ns = begins_ns - BEFORE_NS
        self._locks = ExitStack()
        self._active = False
        self.skipped = 0

    def __enter__(self) -> Self:
        if self._gives_way:
            self._locks.enter_context(lock.shared(self._second))
        elif time.time_ns() >= self._from_ns:
            self.update(time.time_ns())
            if lock.is_shared(self._second):
                # Late, so not expected: the other has handed over slots that are not due yet.
                time.sleep(BEFORE_NS / SECOND_NS)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._locks.close()

    def update(self, now_ns: int) -> None:
        """To be called several times a second: takes the right of way shortly before the period."""
        if not self._gives_way and not self._active and now_ns >= self._from_ns:
            self._active = True
            self._locks.enter_context(lock.shared(self._first))

    def reason_to_skip(self) -> str | None:
        """Why a slot may not be handed to the prober now; None if it may."""
        if not self._gives_way or not lock.is_shared(self._first):
            return None
        self.skipped += 1
        return REASON
