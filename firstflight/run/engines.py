"""Waits for an engine that a killed stage left behind."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from firstflight.system import lock, progress

LOOK_EVERY_S = 0.1


def await_engine(folder: Path, look: Callable[[], None]) -> None:
    """Wait until no engine writes segments into `folder`, which need not exist.

    Calls `look` ten times a second, which may raise to end the wait. A stage that is killed leaves its engine
    behind, which holds the folder's lock until its probes in flight have ended. Only then it is known which
    targets have rows.
    """
    if lock.is_locked(folder):
        progress.print_line(
            f"an earlier engine still writes into {folder}; waiting for its end "
            f"(if it is suspended, `fuser {folder}` names it: let it go on, or kill it)"
        )
    while lock.is_locked(folder):
        look()
        time.sleep(LOOK_EVERY_S)
