"""Finds processes of the programs under test, and what signals wait for them."""

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


def pending(pid: int) -> int:
    """Return the signals of a process that it has not handled yet, as a bit mask (bit 0: signal 1)."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(status.partition("ShdPnd:")[2].split()[0], 16)
