"""Answers, which may be binary, on standard output."""

from __future__ import annotations

import os
import sys

from firstflight.errors import FirstflightError


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
