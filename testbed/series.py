"""A series of trials: the blocks of an experiment's cells, some at a time, each once.

Results are in OUT/EXPERIMENT/CELL/FIRST-LAST. A block's folder is complete or not there, so a series that was
killed goes on where it was.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

from firstflight.errors import InputError, UsageError
from firstflight.system import lock
from testbed import block as blocks
from testbed import stacks
from testbed.block import Block
from testbed.cell import Cell
from testbed.trial_row import Row

GUEST_CPU_S = 2.0
"""CPU seconds of a guest before its first trial (docs/testbed.md says where it was measured)."""
TRIAL_CPU_S, BROWSER_CPU_S = 0.07, 9.0
"""CPU seconds of a trial, and of one whose client is a browser."""
BODY_CPU_S = 0.7
"""CPU seconds of a megabyte of a response's body."""


@dataclass(frozen=True)
class Plan:
    """What a series has to do, and what is there already."""

    out: Path
    missing: tuple[Block, ...]
    present: tuple[Block, ...]

    @property
    def trials(self) -> int:
        """Return how many trials are to be done in guests."""
        return sum(block.trials for block in self.missing if block.unavailable() is None)

    @property
    def guests(self) -> int:
        """Return how many guests that takes."""
        return sum(block.unavailable() is None for block in self.missing)

    @property
    def cpu_s(self) -> float:
        """Return the CPU seconds that this takes, as foretold."""
        here = [block for block in self.missing if block.unavailable() is None]
        # The first trial of a guest is not counted.
        return sum(GUEST_CPU_S + (block.trials + 1) * _trial_cpu_s(block.cell) for block in here)

    def folder(self, block: Block) -> Path:
        """Return where a block's results are."""
        return self.out / block.experiment / block.name


def _trial_cpu_s(cell: Cell) -> float:
    own = BROWSER_CPU_S if stacks.find(cell.client).polls else TRIAL_CPU_S
    return own + cell.body_bytes / 1e6 * BODY_CPU_S


def plan(out: Path, experiment: str, cells: Iterable[Cell], repetitions: int, *, resume: bool) -> Plan:
    """Return the plan of a series: each repetition once, whatever the blocks that are there are divided by.

    UsageError if OUT has results of these cells and `resume` is not asked for, or some that cannot be kept:
    of other conditions, or of the same repetitions twice. InputError if they cannot be read.
    """
    folder = out / experiment
    missing: list[Block] = []
    present: list[Block] = []
    chosen = list(cells)
    for cell in chosen:
        there = blocks.complete(folder, experiment, cell)
        for block in there:
            if not block.has_made(blocks.rows(folder / block.name)):
                raise UsageError(
                    f"{folder / block.name} has trials of other conditions than the cell has now: remove "
                    "this folder, or give another one by --out"
                )
        for block, after in itertools.pairwise(there):
            if after.first <= block.last:
                raise UsageError(
                    f"{folder / after.name} has repetitions that {block.name} has, too: remove one of them"
                )
        present += there
        missing += blocks.blocks(experiment, cell, repetitions, there)
    if present and not resume:
        raise UsageError(
            f"{folder} has results of {len({block.cell.name for block in present})} of these {len(chosen)} "
            "cells: give --resume to keep them and do the others, or another folder by --out"
        )
    return Plan(out, tuple(missing), tuple(present))


def run(
    planned: Plan, jobs: int, say: Callable[[Block, Sequence[Row], float], None], *, captures: bool
) -> None:
    """Do what is missing, `jobs` guests at a time; `say` is called after each block with its wall time in s.

    UsageError if another series writes to the same folder, or if guests cannot be started here.
    """
    planned.out.mkdir(parents=True, exist_ok=True)
    with lock.locked(planned.out / "lock", f"the results in {planned.out}"):
        queue = list(reversed(planned.missing))
        going: dict[Future[list[Row]], tuple[Block, float]] = {}
        with ThreadPoolExecutor(jobs) as pool:
            # A fault ends the series after the blocks that are going on.
            while queue or going:
                while queue and len(going) < jobs:
                    block = queue.pop()
                    task = pool.submit(blocks.run, block, planned.folder(block), captures=captures)
                    going[task] = (block, time.monotonic())
                for task in wait(going, return_when=FIRST_COMPLETED).done:
                    block, begun = going.pop(task)
                    say(block, task.result(), time.monotonic() - begun)


def rows(out: Path, experiment: str) -> list[Row]:
    """Return the rows of an experiment. InputError if there are none, or one is no row."""
    folder = out / experiment
    found: list[Row] = []
    places: dict[tuple[str, int], Path] = {}
    for place in sorted(file.parent for file in folder.glob(f"*/*/{blocks.ROWS}")):
        # What a killed run left has another name.
        if place.suffix:
            continue
        for row in blocks.rows(place):
            before = places.setdefault((row["cell"], row["repetition"]), place)
            if before != place:
                raise InputError(
                    f"{place} has repetition {row['repetition']} of {row['cell']}, as {before.name} beside "
                    "it has: remove one of these folders"
                )
            found.append(row)
    if not found:
        raise InputError(f"{folder} has no trials: `firstflight testbed run {experiment}` makes some")
    return found
