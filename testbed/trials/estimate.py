"""Estimates for a guest: CPU time, maximum wall time, memory, and the resulting number of trials."""

from __future__ import annotations

import math

from testbed import stacks
from testbed.experiment.cell import Cell

LENGTH = 50
"""Maximum repetitions in a block."""
MEMORY_MB, BROWSER_MB = 1024, 3072
"""Minimum memory for a guest, and for a guest with a browser."""
CAPTURES_MB = 400
"""Space for captures in such a guest. They are in memory, in a folder that uses at most half the memory."""
CAPTURED = 4
"""Maximum bytes of captures per byte in a body. Two captures contain it, with retransmissions and headers."""
LIMIT_S = 900.0
"""Time limit for a guest, in the host's time; longer only if a single trial needs more."""
SLOWER = 5
"""Limit of a guest's time, as a multiple of the estimated CPU time: the machine may have other work."""
GUEST_CPU_S = 2.0
"""CPU seconds for a guest before its first trial (docs/testbed.md has the measurement)."""
TRIAL_CPU_S, BROWSER_CPU_S = 0.07, 9.0
"""CPU seconds for a trial, and for a trial with a browser as client."""
BODY_CPU_S = 0.7
"""CPU seconds per megabyte of a response's body."""


def cpu_s(cell: Cell, trials: int) -> float:
    """Return the CPU seconds for a guest that runs `trials` of a cell."""
    trial_s = BROWSER_CPU_S if stacks.find(cell.client).polls else TRIAL_CPU_S
    # Plus a guest's first trial, which does not count.
    return GUEST_CPU_S + (trials + 1) * (trial_s + cell.responses * cell.body_bytes / 1e6 * BODY_CPU_S)


def limit_s(cell: Cell, trials: int) -> float:
    """Return the time limit of such a guest, in seconds of the host's clock."""
    return max(LIMIT_S, SLOWER * cpu_s(cell, trials))


def memory_mb(cell: Cell, trials: int) -> int:
    """Return the memory of such a guest: more than the minimum only if one trial's captures need more."""
    least = BROWSER_MB if stacks.find(cell.client).polls else MEMORY_MB
    return least + max(0, math.ceil(2 * (_captures_mb(cell, trials) - CAPTURES_MB)))


def length(cell: Cell) -> int:
    """Return the repetitions for a cell per guest, within the limits of memory and time."""
    return next(
        (
            trials
            for trials in range(LENGTH, 1, -1)
            if SLOWER * cpu_s(cell, trials) <= LIMIT_S and _captures_mb(cell, trials) <= CAPTURES_MB
        ),
        1,
    )


def _captures_mb(cell: Cell, trials: int) -> float:
    return CAPTURED * cell.responses * cell.body_bytes * (trials + 1) / 1e6
