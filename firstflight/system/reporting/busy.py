"""Determines whether the processor or the disk limits a stage that does not wait for measured hosts."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

# Minimum share of CPU time at which the processor limits a process.
BUSY_SHARE = 0.7
# Minimum interval for a decision.
SHORTEST_S = 0.2
THIS_MACHINE = "this machine"
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Busy:
    """Each call returns what has limited a process since the last call.

    `cpu_s` returns the process's CPU seconds (default: of this process). `otherwise`: what the process waits
    for when it does not compute, as text for `Progress`.
    """

    def __init__(self, otherwise: str, cpu_s: Callable[[], float | None] = time.process_time) -> None:
        self._otherwise = otherwise
        self._cpu_s = cpu_s
        self._at, self._used = time.monotonic(), cpu_s() or 0.0
        self._limit: str | None = None

    def __call__(self) -> str | None:
        """Return `this machine`, `otherwise`, or `None` if unknown yet."""
        now, used = time.monotonic(), self._cpu_s()
        if used is not None and now - self._at >= SHORTEST_S:
            share = (used - self._used) / (now - self._at)
            self._limit = THIS_MACHINE if share >= BUSY_SHARE else self._otherwise
            self._at, self._used = now, used
        return self._limit


def cpu_s_of(pid: int) -> float | None:
    """Return a process's CPU seconds (proc(5)); `None` if it has exited."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2]
    except OSError:
        return None
    user, system = fields.split()[11:13]
    return (int(user) + int(system)) / _TICKS_PER_S


def bytes_read_by(pid: int) -> int | None:
    """Return the number of bytes that a process has read from files (proc(5)); `None` if unknown."""
    try:
        lines = Path(f"/proc/{pid}/io").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) for line in lines if line.startswith("rchar:")), None)
