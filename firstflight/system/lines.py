"""Reads lines of other programs: the next one or all from a pipe, and the last one in a log."""

from __future__ import annotations

import math
import os
import select
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from firstflight.errors import FirstflightError

LONGEST = 1 << 20
"""Maximum length of a line in bytes."""


class LineTooLong(FirstflightError):
    """A program wrote more than LONGEST bytes without an end of line."""


def next_line(
    pipe: IO[bytes], limit_s: float, *, watch: Callable[[], None] | None = None, every_s: float = 0.1
) -> bytes:
    """Return the next line with the line feed, or the rest if the other side closed the pipe.

    The other side must not write another line before this one was read. `watch` is called first and then
    every `every_s` seconds while waiting, and may raise to stop. Raise TimeoutError after `limit_s` seconds,
    and LineTooLong for a line of more than LONGEST bytes.
    """
    line = b""
    for chunk in _chunks(pipe, limit_s, watch, every_s):
        line += chunk
        _check_length(line)
        if line.endswith(b"\n"):
            break
    return line


def all_lines(pipe: IO[bytes], watch: Callable[[], None], every_s: float = 0.1) -> Iterator[bytes]:
    """Yield the lines that arrive until the other side closes the pipe, without the line feed.

    An incomplete last line is omitted. `watch` is called before each line and as in `next_line`. Raise
    LineTooLong like `next_line`.
    """
    rest = b""
    for chunk in _chunks(pipe, math.inf, watch, every_s):
        *lines, rest = (rest + chunk).split(b"\n")
        _check_length(rest)
        for line in lines:
            watch()
            yield line


def _chunks(
    pipe: IO[bytes], limit_s: float, watch: Callable[[], None] | None, every_s: float
) -> Iterator[bytes]:
    """Yield the bytes that arrive, as `next_line` describes it, until the other side closes the pipe."""
    end = time.monotonic() + limit_s
    # select() refuses descriptors above 1023.
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    while True:
        if watch is not None:
            watch()
        remaining_s = end - time.monotonic()
        if remaining_s <= 0:
            raise TimeoutError(f"nothing for {limit_s:g} s")
        if not poll.poll(1000 * (remaining_s if watch is None else min(remaining_s, every_s))):
            continue
        chunk = os.read(pipe.fileno(), 1 << 16)
        if not chunk:
            return
        yield chunk


def _check_length(line: bytes) -> None:
    if len(line) > LONGEST:
        raise LineTooLong(f"a line has more than {LONGEST} bytes")


def last_line(log: Path) -> str:
    """Return the last line of a program's log that has text, stripped; empty without one."""
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
