"""Estimates for a guest: CPU time, maximum wall time, memory, and the resulting number of trials."""

from __future__ import annotations

import math

from testbed import stacks
from testbed.experiment.cell import Cell

LENGTH = 50
"""The most repetitions of a block."""
MEMORY_MB, BROWSER_MB = 1024, 3072
"""Of a guest, and of one with a browser. The least that they have."""
CAPTURES_MB = 400
"""Of such a guest, for captures: they are in its memory, in a folder that takes half of that at most."""
CAPTURED = 4
"""The most bytes of captures for each of a body, which is in both, repeated and in small packets."""
LIMIT_S = 900.0
"""Of a guest, in the host's time; more only if one trial needs more."""
SLOWER = 5
"""A guest may take so many times the CPU time that is foretold: the machine may have other work."""
GUEST_CPU_S = 2.0
"""CPU seconds of a guest before its first trial (docs/testbed.md says where it was measured)."""
TRIAL_CPU_S, BROWSER_CPU_S = 0.07, 9.0
"""CPU seconds of a trial, and of one whose client is a browser."""
BODY_CPU_S = 0.7
"""CPU seconds of a megabyte of a response's body."""


def cpu_s(cell: Cell, trials: int) -> float:
    """Return the CPU seconds of a guest that does `trials` of a cell."""
    own = BROWSER_CPU_S if stacks.find(cell.client).polls else TRIAL_CPU_S
    # The first trial of a guest is not counted.
    return GUEST_CPU_S + (trials + 1) * (own + cell.body_bytes / 1e6 * BODY_CPU_S)


def limit_s(cell: Cell, trials: int) -> float:
    """Return the longest time of such a guest, in seconds of the host's clock."""
    return max(LIMIT_S, SLOWER * cpu_s(cell, trials))


def memory_mb(cell: Cell, trials: int) -> int:
    """Return the memory of such a guest: more than the least only if one trial's captures need more."""
    least = BROWSER_MB if stacks.find(cell.client).polls else MEMORY_MB
    return least + max(0, math.ceil(2 * (_captures_mb(cell, trials) - CAPTURES_MB)))


def length(cell: Cell) -> int:
    """Return how many repetitions of a cell its guests do: its memory and its time have to be enough."""
    return next(
        (
            trials
            for trials in range(LENGTH, 1, -1)
            if SLOWER * cpu_s(cell, trials) <= LIMIT_S and _captures_mb(cell, trials) <= CAPTURES_MB
        ),
        1,
    )


def _captures_mb(cell: Cell, trials: int) -> float:
    return CAPTURED * cell.body_bytes * (trials + 1) / 1e6
