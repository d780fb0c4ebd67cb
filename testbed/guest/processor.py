"""Gives each guest a processor of the machine.

A guest has one processor, and its processes on the host take turns at each system call. Between two
processors of the host each turn wakes one up, which takes a virtual machine tens of microseconds; on one it
takes two.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from firstflight.errors import FirstflightError
from firstflight.system.lock import locked


@contextmanager
def reserved(folder: Path) -> Iterator[set[int]]:
    """Yield a processor of this thread's that no other guest of this user has: a set of one.

    All of them if others have each, or `folder` cannot be written; its files are locked while guests run.
    """
    mine = os.sched_getaffinity(0)
    with ExitStack() as stack:
        yield next(({one} for one in sorted(mine) if _take(stack, folder, one)), mine)


def _take(stack: ExitStack, folder: Path, number: int) -> bool:
    """Take a processor until `stack` ends; return whether it was free."""
    try:
        stack.enter_context(locked(folder / f"processor-{number}.lock", f"processor {number}"))
    except FirstflightError:
        return False
    return True


@contextmanager
def only(processors: set[int]) -> Iterator[None]:
    """Let this thread, and what it starts during the block, use these processors alone."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, processors)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
