"""Gives each guest a processor of the machine.

A guest has one processor, and its processes on the host take turns at each system call. If these processes
run on two processors of the host, each turn wakes one up, which takes tens of microseconds on a virtual
machine. On one processor a turn takes two microseconds.
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

    The result is a set with this processor, or with all this thread's processors if each is reserved
    or if `folder` is not writable. Lock files in `folder` mark reserved processors while guests run.
    """
    processors = os.sched_getaffinity(0)
    with ExitStack() as stack:
        yield next(
            ({processor} for processor in sorted(processors) if _reserve(stack, folder, processor)),
            processors,
        )


def _reserve(stack: ExitStack, folder: Path, number: int) -> bool:
    """Reserve a processor until `stack` closes; return whether it was free."""
    try:
        stack.enter_context(locked(folder / f"processor-{number}.lock", f"processor {number}"))
    except FirstflightError:
        return False
    return True


@contextmanager
def restricted_to(processors: set[int]) -> Iterator[None]:
    """Restrict this thread, and processes it starts during the block, to these processors."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, processors)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
