"""Waits for events: no test sleeps for a fixed time where it can check a condition."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
# A limit for tests that would hang; the awaited events take a small part of it, even on a busy machine.
PATIENCE_S = 120.0
# Between two looks, in seconds: short at first, since most events are near; later looks cost others' time.
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.01, 0.05


def until(condition: Callable[[], T], what: str | Callable[[], object], limit_s: float = PATIENCE_S) -> T:
    """Wait until `condition` returns a true value, and return that.

    After `limit_s` seconds the test fails with `what`, a text or a function that returns one.
    """
    end = time.monotonic() + limit_s
    pause_s = FIRST_PAUSE_S
    while not (found := condition()):
        if time.monotonic() >= end:
            shown = what() if callable(what) else what
            raise AssertionError(f"not within {limit_s:.0f} s: {shown}")
        time.sleep(pause_s)
        pause_s = min(1.3 * pause_s, LONGEST_PAUSE_S)
    return found
