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
    """Yield one of this thread's processors that no other guest of this user has reserved.

    The result is a set of one processor. It is the set of all this thread's processors if each is reserved
    or if `folder` is not writable. Lock files in `folder` mark reserved processors while guests run.
    """
    mine = os.sched_getaffinity(0)
    with ExitStack() as stack:
        yield next(({one} for one in sorted(mine) if _take(stack, folder, one)), mine)


def _take(stack: ExitStack, folder: Path, number: int) -> bool:
    """Reserve a processor until `stack` closes; return whether it was free."""
    try:
        stack.enter_context(locked(folder / f"processor-{number}.lock", f"processor {number}"))
    except FirstflightError:
        return False
    return True


@contextmanager
def only(processors: set[int]) -> Iterator[None]:
    """Restrict this thread, and processes it starts during the block, to these processors."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, processors)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
