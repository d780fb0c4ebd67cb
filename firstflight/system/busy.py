"""Finds whether the processor or files limit a stage that waits for no measured host."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

# Share of CPU time from which on the processor limits a process.
BUSY_SHARE = 0.7
# Shorter intervals are too short for a decision.
SHORTEST_S = 0.2
THIS_MACHINE = "this machine"
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Busy:
    """Tells, each time it is called, what has limited a process since the last call.

    `cpu_s` returns the CPU seconds that the process has used (default: this one). `otherwise` names what it
    waits for when it does not compute, as for `Progress`'s limit.
    """

    def __init__(self, otherwise: str, cpu_s: Callable[[], float | None] = time.process_time) -> None:
        self._otherwise = otherwise
        self._cpu_s = cpu_s
        self._at, self._used = time.monotonic(), cpu_s() or 0.0
        self._limit: str | None = None

    def __call__(self) -> str | None:
        """Return `this machine`, `otherwise`, or None if that is not known yet."""
        now, used = time.monotonic(), self._cpu_s()
        if used is not None and now - self._at >= SHORTEST_S:
            share = (used - self._used) / (now - self._at)
            self._limit = THIS_MACHINE if share >= BUSY_SHARE else self._otherwise
            self._at, self._used = now, used
        return self._limit


def cpu_s_of(pid: int) -> float | None:
    """Return the CPU seconds of a process (proc(5)); None if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2]
    except OSError:
        return None
    user, system = fields.split()[11:13]
    return (int(user) + int(system)) / _TICKS_PER_S


def bytes_read_by(pid: int) -> int | None:
    """Return how many bytes a process has read from files (proc(5)); None if that is not to be known."""
    try:
        lines = Path(f"/proc/{pid}/io").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) for line in lines if line.startswith("rchar:")), None)
