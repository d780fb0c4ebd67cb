"""Writes results, which may be binary, to standard output."""

from __future__ import annotations

import os
import select
import sys

from firstflight.errors import OutputError, UsageError

_closed = False


def replace_closed() -> None:
    """Replace a closed standard output with /dev/null. Call this once, at the start."""
    global _closed
    if sys.stdout is None:
        _closed = True
        sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115


def check_open() -> None:
    """Raise UsageError if standard output was closed. Commands with results call this first."""
    if _closed:
        raise UsageError("standard output is closed: redirect it to a file")


def is_unread() -> bool:
    """Return whether standard output is a pipe without a reader."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    return any(events & select.POLLERR for _, events in poll.poll(0))


def write(answer: bytes) -> None:
    """Write all of `answer` without Python's buffers (flushing them at exit would fail again).

    Return early if the reader has closed the pipe. Raise OutputError on other write errors.
    """
    remaining = memoryview(answer)
    while remaining:
        try:
            remaining = remaining[os.write(sys.stdout.fileno(), remaining) :]
        except BrokenPipeError:
            return
        except OSError as error:
            raise OutputError(f"cannot write the answer: {error.strerror}") from error
