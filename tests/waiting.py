"""Waiting for events. No test waits for a time to pass where something can be looked at instead."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
# An end for what would hang; what is waited for takes a small part of it on a busy machine, too.
PATIENCE_S = 120.0


def until(condition: Callable[[], T], what: str | Callable[[], object], limit_s: float = PATIENCE_S) -> T:
    """Wait until `condition` gives something true, and give that.

    After `limit_s` seconds the test fails with `what`, a text or what gives one.
    """
    end = time.monotonic() + limit_s
    while not (found := condition()):
        if time.monotonic() >= end:
            shown = what() if callable(what) else what
            raise AssertionError(f"not within {limit_s:.0f} s: {shown}")
        time.sleep(0.02)
    return found
