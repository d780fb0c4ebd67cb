"""Waits for events. Tests do not sleep for a fixed time where they can check a condition."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
# A limit for tests that would hang. Ten seconds on an idle machine may be minutes on a busy one.
PATIENCE_S = 600.0
# Pauses between checks, in seconds. They start short, since most events are soon, and grow to save CPU time.
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.01, 0.05


def until(condition: Callable[[], T], what: str | Callable[[], object], limit_s: float = PATIENCE_S) -> T:
    """Wait until `condition` returns a true value, and return this value.

    After `limit_s` seconds, the test fails with the message `what`, a text or a function that returns a text.
    """
    end = time.monotonic() + limit_s
    pause_s = FIRST_PAUSE_S
    while not (found := condition()):
        if time.monotonic() >= end:
            shown = what() if callable(what) else what
            raise AssertionError(f"timeout after {limit_s:.0f} s: {shown}")
        time.sleep(pause_s)
        pause_s = min(1.3 * pause_s, LONGEST_PAUSE_S)
    return found
