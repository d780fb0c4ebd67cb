"""Reads a line that another program writes, within a time."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable
from typing import IO

from firstflight.errors import FirstflightError

LONGEST = 1 << 20
"""Most bytes of a line."""


class LineTooLong(FirstflightError):
    """A program wrote more than LONGEST bytes without an end of line."""


def next_line(
    pipe: IO[bytes], limit_s: float, *, watch: Callable[[], None] | None = None, every_s: float = 0.1
) -> bytes:
    """Return the next line with its end, or the rest if the other side closed the pipe.

    `watch` is called before and every `every_s` seconds while it waits, and may raise to stop it.
    TimeoutError after `limit_s` seconds; LineTooLong for a line of more than LONGEST bytes.
    """
    line, end = b"", time.monotonic() + limit_s
    # select() refuses descriptors above 1023.
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    while not line.endswith(b"\n"):
        if watch is not None:
            watch()
        left = end - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"nothing for {limit_s:g} s")
        if not poll.poll(1000 * (left if watch is None else min(left, every_s))):
            continue
        chunk = os.read(pipe.fileno(), 1 << 16)
        line += chunk
        if not chunk:
            break
        if len(line) > LONGEST:
            raise LineTooLong(f"a line has more than {LONGEST} bytes")
    return line
