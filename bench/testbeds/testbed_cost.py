"""The cost for a testbed series, and for a larger series by a straight line through two sizes."""

from __future__ import annotations

import math
from dataclasses import dataclass

from testbed.trials.inside import PAUSE_S

REPETITIONS = 100
CELL_GOAL_S = 12.0
FIGURE_GOAL_S = 15 * 60.0


@dataclass(frozen=True)
class RepetitionCost:
    """CPU seconds for a command that ran `repetitions` of each of `cells`, and seconds that clients waited.

    `cpu_s` is the sum over all processes; `waited_s` is in guest time, a lower bound for real time.
    """

    cpu_s: float
    cells: int
    repetitions: int
    waited_s: float

    @property
    def trials(self) -> int:
        """Return the number of trials."""
        return self.cells * self.repetitions

    @property
    def real_s(self) -> float:
        """Return the duration in real time, including the pauses between trials."""
        return self.waited_s + self.trials * PAUSE_S

    def in_real_time(self) -> str:
        """Return the durations in real time, for display."""
        return f"in real time clients wait {self.waited_s:.0f} s, {self.real_s:.0f} s with the pauses"


@dataclass(frozen=True)
class Scaled:
    """The cost of REPETITIONS of all cells for a client, without the start of the command.

    `guest_cpu_s`: cost for a guest before its first trial; `trial_cpu_s`: cost for a trial. Both are `None`
    if the client was measured as a whole.
    """

    cpu_s: float
    waited_s: float
    real_s: float
    guest_cpu_s: float | None = None
    trial_cpu_s: float | None = None

    def __str__(self) -> str:
        """Return the line to print."""
        of = ""
        if self.guest_cpu_s is not None and self.trial_cpu_s is not None:
            of = f" (a guest {self.guest_cpu_s:.2f}, a trial {self.trial_cpu_s:.3f})"
        return (
            f"{self.cpu_s:.1f} CPU s{of}; in real time clients wait {self.waited_s:.0f} s, "
            f"{self.real_s:.0f} s with the pauses"
        )


def whole(cost: RepetitionCost, start_s: float) -> Scaled:
    """Return a client's cost, measured as a whole; `start_s`: CPU seconds of a command without trials."""
    return Scaled(cost.cpu_s - start_s, cost.waited_s, cost.real_s)


def scaled(few: RepetitionCost, many: RepetitionCost, start_s: float, *, cells: int, length: int) -> Scaled:
    """Return the cost of REPETITIONS of `cells`, from two runs of the same cells with one guest for each.

    `start_s`: CPU seconds of the command without trials; `length`: maximum repetitions in a guest.
    """
    if few.cells != many.cells or not few.repetitions < many.repetitions <= length:
        raise ValueError("a straight line needs the same cells with two numbers of repetitions of one guest")
    trial_s = (many.cpu_s - few.cpu_s) / (many.trials - few.trials)
    guest_s = (few.cpu_s - start_s - few.trials * trial_s) / few.cells
    guests, trials = cells * math.ceil(REPETITIONS / length), cells * REPETITIONS
    waited_s = many.waited_s / many.trials * trials
    cpu_s = guests * guest_s + trials * trial_s
    return Scaled(cpu_s, waited_s, waited_s + trials * PAUSE_S, guest_s, trial_s)


def line(cost: float, goal: float, unit: str) -> str:
    """Return a cost and the goal, for display."""
    return f"{cost:.1f} CPU {unit} (goal under {goal:g}: {'met' if cost < goal else 'missed'})"
