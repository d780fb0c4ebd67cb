"""Waits for an engine or a dissector that still runs after its stage was killed."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from firstflight.system import lock
from firstflight.system.reporting import progress

LOOK_EVERY_S = 0.1


def await_engine(folder: Path, look: Callable[[], None]) -> None:
    """Wait until no program holds the lock of `folder`. The folder need not exist.

    Calls `look` ten times a second. `look` may raise to stop waiting. The engine of a killed stage holds the
    lock on the segments' folder until all probes in flight are finished. Only then is it certain which
    targets have rows. A dissector holds the lock on the stage's folder.
    """
    if lock.is_locked(folder):
        progress.print_line(
            f"an earlier program still writes into {folder}; waiting for it to end "
            f"(if it is suspended, find it with `fuser {folder}`, then continue or kill it)"
        )
    while lock.is_locked(folder):
        look()
        time.sleep(LOOK_EVERY_S)
