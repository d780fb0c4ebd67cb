"""Lets only one watch send at a time when two run at a vantage point.

A watch uses the limits of its vantage point alone. A watch with `watch.gives_way` (a scheduled one yields to
a manual one) sends only while no other watch is active, so both together never exceed one watch's limits.
They coordinate by file locks beside the runs, which the kernel releases when their processes end.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from firstflight.run.run import Run
from firstflight.system import lock
from scanner.planned.probes import AHEAD_NS, SECOND_NS

# A watch becomes active this long before its period: by then the other watch's submitted probes have been
# sent, and the gap that the limits require has passed.
BEFORE_NS = AHEAD_NS + 3 * SECOND_NS
# So much later the gap is still kept.
LATE_NS = SECOND_NS // 2
# A period that begins this soon is waited for as an active watch: until then names, capture and prober are
# prepared, which takes as long as it takes.
SOON_NS = 60 * SECOND_NS
# The `reason` of slots that are skipped in favour of the other watch (schemas/records/watch_slot.yaml).
REASON = "limit"


class Precedence:
    """Precedence of one watch stage whose period begins at `begins_ns` (UTC). A context manager.

    `skipped` counts the slots that were skipped in favour of another watch.
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
        else:
            self.update(time.time_ns() + SOON_NS)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._locks.close()

    def update(self, now_ns: int) -> None:
        """Take precedence shortly before the period. Call this several times a second.

        Too late, it waits until the other watch's submitted probes have been sent.
        """
        if self._gives_way or self._active or now_ns < self._from_ns:
            return
        self._active = True
        self._locks.enter_context(lock.shared(self._first))
        # The lock counts from when it is held, however long that took.
        if time.time_ns() > self._from_ns + LATE_NS and lock.is_shared(self._second):
            time.sleep(BEFORE_NS / SECOND_NS)

    def reason_to_skip(self) -> str | None:
        """Return why no probe may be submitted now; None if it may."""
        if not self._gives_way or not lock.is_shared(self._first):
            return None
        self.skipped += 1
        return REASON
