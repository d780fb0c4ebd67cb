"""Finds processes of the programs under test."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from lab.site.processes import descendants


def running(pid: int, program: str) -> list[int]:
    """Return `pid` and its descendants, as far as they run `program`."""
    found = []
    for one in descendants([pid]):
        with suppress(OSError):
            if Path(f"/proc/{one}/exe").readlink().name == program:
                found.append(one)
    return found
