"""Answers, which may be binary, on standard output."""

from __future__ import annotations

import os
import sys

from firstflight.errors import FirstflightError, UsageError

_closed = False


def replace_closed() -> None:
    """Once, at the start: put /dev/null in the place of a standard output that the caller closed."""
    global _closed
    if sys.stdout is None:
        _closed = True
        sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115


def check_open() -> None:
    """UsageError if standard output was closed: for commands whose answer goes there, before they begin."""
    if _closed:
        raise UsageError("standard output is closed: redirect it to a file")


def write(answer: bytes) -> None:
    """Write all of `answer`, past Python's buffers (they would fail again at the end).

    Returns early if the reader has seen enough; FirstflightError if it cannot be written.
    """
    left = memoryview(answer)
    while left:
        try:
            left = left[os.write(sys.stdout.fileno(), left) :]
        except BrokenPipeError:
            return
        except OSError as error:
            raise FirstflightError(f"cannot write the answer: {error.strerror}") from error
