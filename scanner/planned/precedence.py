"""Lets only one of two watches at a vantage point send at a time.

A watch may use the vantage point's whole limits. A watch with low `watch.precedence` (a scheduled watch)
sends only while no other watch is active. So both together never exceed one watch's limits.
They coordinate with file locks in the folder of runs. The kernel releases the locks when the processes exit.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from firstflight.run.run import Run
from firstflight.system import lock
from scanner.planned.probes import AHEAD_NS, SECOND_NS

# A watch becomes active this long before its period. Until the period starts, the other watch has sent its
# submitted probes, and the gap that the limits require has passed.
BEFORE_NS = AHEAD_NS + 3 * SECOND_NS
# With a delay up to this, the gap is still kept.
LATE_NS = SECOND_NS // 2
# A watch counts as active if its period starts within this time: until then it prepares names, capture and
# prober, which takes an unknown time.
SOON_NS = 60 * SECOND_NS
# The `reason` of slots that are skipped because of the other watch (schemas/records/watch_slot.yaml).
REASON = "limit"


class Precedence:
    """Precedence of a watch stage with a period that starts at `begins_ns` (UTC). A context manager.

    `skipped` counts the slots that were skipped because of another watch.
    """

    def __init__(self, run: Run, vantage: str, begins_ns: int) -> None:
        self._lock_file = run.path.parent / f"watch-{vantage}.lock"
        self._low_lock_file = run.path.parent / f"watch-{vantage}-low.lock"
        self._is_low = run.settings.watch.precedence == "low"
        self._from_ns = begins_ns - BEFORE_NS
        self._locks = ExitStack()
        self._active = False
        self.skipped = 0

    def __enter__(self) -> Self:
        if self._is_low:
            self._locks.enter_context(lock.shared(self._low_lock_file))
        else:
            self.update(time.time_ns() + SOON_NS)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._locks.close()

    def update(self, now_ns: int) -> None:
        """Take precedence shortly before the period. Call this several times a second.

        If it is too late, wait until the other watch's submitted probes have been sent.
        """
        if self._is_low or self._active or now_ns < self._from_ns:
            return
        self._active = True
        self._locks.enter_context(lock.shared(self._lock_file))
        # The lock is effective from now on, however long it took to get it.
        if time.time_ns() > self._from_ns + LATE_NS and lock.is_shared(self._low_lock_file):
            time.sleep(BEFORE_NS / SECOND_NS)

    def reason_to_skip(self) -> str | None:
        """Return why no probe may be submitted now; `None` if it may."""
        if not self._is_low or not lock.is_shared(self._lock_file):
            return None
        self.skipped += 1
        return REASON
