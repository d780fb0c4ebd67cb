"""Gives each guest a processor of the machine.

A guest has one processor, and its processes on the host take turns at each system call. Between two
processors of the host each turn wakes one up, which takes a virtual machine tens of microseconds; on one it
takes two.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def reserved(folder: Path) -> Iterator[set[int]]:
    """Yield a processor of this thread's that no other guest of this user has: a set of one.

    All of them if others have each, or `folder` cannot be written; its files are locked while guests run.
    """
    mine = os.sched_getaffinity(0)
    for number in sorted(mine):
        try:
            handle = os.open(
                folder / f"processor-{number}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644
            )
        except OSError:
            break
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            continue
        try:
            yield {number}
        finally:
            os.close(handle)
        return
    yield mine


@contextmanager
def only(processors: set[int]) -> Iterator[None]:
    """Let this thread, and what it starts during the block, use these processors alone."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, processors)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
