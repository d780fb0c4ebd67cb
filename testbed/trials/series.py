"""A series of trials: runs each block of an experiment's cells once, several blocks at a time.

Results are in OUT/EXPERIMENT/CELL/FIRST-LAST. A block's folder is either complete or absent, so a killed
series can resume.
"""

from __future__ import annotations

import heapq
import itertools
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

from firstflight.errors import InputError, UsageError
from firstflight.system import lock
from testbed.experiment.cell import Cell
from testbed.trials import block as blocks
from testbed.trials import trial_row, versions
from testbed.trials.block import TrialBlock
from testbed.trials.captures import block_files
from testbed.trials.trial_row import TrialRow


@dataclass(frozen=True)
class SeriesPlan:
    """The missing and the present blocks in a series."""

    out: Path
    missing: tuple[TrialBlock, ...]
    present: tuple[TrialBlock, ...]
    again: tuple[TrialBlock, ...] = ()
    """Present blocks to repeat: their guests failed, or their stack was unavailable."""
    older: tuple[str, ...] = ()
    """A sentence for each stack with another version in the kept trials than here."""

    @property
    def trials(self) -> int:
        """Return the number of trials to run in guests."""
        return sum(block.trials for block in self.missing if block.unavailable() is None)

    @property
    def guests(self) -> int:
        """Return the number of guests to run."""
        return sum(block.unavailable() is None for block in self.missing)

    @property
    def cpu_s(self) -> float:
        """Return the estimated CPU seconds."""
        return sum(block.cpu_s for block in self.missing if block.unavailable() is None)

    def wall_s(self, jobs: int) -> float:
        """Return the estimated wall time in seconds with `jobs` guests at a time.

        The estimate assumes an idle machine. A guest has one processor, so it then runs for its CPU time.
        More guests than processors do not reduce the time.
        """
        at_a_time = min(jobs, len(os.sched_getaffinity(0)))
        free = [0.0] * at_a_time
        for block in self.missing:
            if block.unavailable() is None:
                heapq.heapreplace(free, free[0] + block.cpu_s)
        return max(free)

    def folder(self, block: TrialBlock) -> Path:
        """Return the folder for a block's results."""
        return self.out / block.experiment / block.name


def plan(out: Path, experiment: str, cells: Iterable[Cell], repetitions: int, *, resume: bool) -> SeriesPlan:
    """Return the series' plan. It has each repetition once, however present blocks divide them.

    UsageError if OUT has results of these cells and `resume` is false, or results that cannot be kept (other
    conditions, or duplicate repetitions). InputError if they are unreadable, or if results of any cell of the
    experiment come from another version of firstflight, because all cells share one record file.
    """
    folder = out / experiment
    _check_version(folder)
    missing: list[TrialBlock] = []
    present: list[TrialBlock] = []
    repeated: list[TrialBlock] = []
    recorded: set[versions.Version] = set()
    chosen = list(cells)
    for cell in chosen:
        complete: list[TrialBlock] = []
        for block, rows in _complete(folder, experiment, cell):
            if _is_to_repeat(block, rows):
                repeated.append(block)
            else:
                complete.append(block)
                recorded |= versions.of(rows)
        for block, after in itertools.pairwise(complete):
            if after.first <= block.last:
                raise UsageError(
                    f"{folder / after.name} has repetitions that {block.name} also has: remove one of them"
                )
        present += complete
        missing += blocks.blocks(experiment, cell, repetitions, complete)
    names = {block.cell.name for block in (*present, *repeated)}
    if names and not resume:
        raise UsageError(
            f"{folder} has results of {len(names)} of these {len(chosen)} cells: give --resume to keep them "
            "and do the others, or another folder by --out"
        )
    return SeriesPlan(
        out, tuple(missing), tuple(present), tuple(repeated), tuple(versions.version_differences(recorded))
    )


def check_conditions(out: Path, experiment: str, cells: Iterable[Cell]) -> None:
    """Raise UsageError if present trials have other conditions than the cells have now.

    InputError if some come from another version of firstflight, which has other columns.
    """
    _check_version(out / experiment)
    for cell in cells:
        for _ in _complete(out / experiment, experiment, cell):
            pass


def _check_version(folder: Path) -> None:
    for _, rows in _found(folder):
        trial_row.check_version(folder, rows)


def _complete(folder: Path, experiment: str, cell: Cell) -> Iterator[tuple[TrialBlock, list[TrialRow]]]:
    """Yield a cell's complete blocks in an experiment's folder, with their rows. UsageError as above."""
    for block in blocks.complete(folder, experiment, cell):
        rows = block_files.rows(folder / block.name)
        if not block.has_made(rows):
            raise UsageError(
                f"{folder / block.name} has trials of other conditions than the cell has now: remove "
                "this folder, or give another one by --out"
            )
        yield block, rows


def _is_to_repeat(block: TrialBlock, rows: Sequence[TrialRow]) -> bool:
    """Return whether to repeat present trials: a guest may have failed for a temporary reason."""
    outcomes = {row["outcome"] for row in rows}
    return "guest_failed" in outcomes or ("unavailable" in outcomes and block.unavailable() is None)


def run(
    planned: SeriesPlan,
    jobs: int,
    say: Callable[[TrialBlock, Sequence[TrialRow], float], None],
    *,
    captures: bool,
) -> None:
    """Run the missing blocks, `jobs` guests at a time. Call `say` after each with its wall time in s.

    UsageError, before any block starts, if another series writes to the same folder or if the guests of a
    block cannot start here.
    """
    blocks.check(planned.missing, jobs)
    planned.out.mkdir(parents=True, exist_ok=True)
    with lock.locked(planned.out / "lock", f"the folder {planned.out}"):
        # We hold the lock, so only killed runs can have left the partial folders.
        for unfinished in (*planned.out.glob("*/*/*.part"), *map(planned.folder, planned.again)):
            shutil.rmtree(unfinished, ignore_errors=True)
        queue = list(reversed(planned.missing))
        going: dict[Future[list[TrialRow]], tuple[TrialBlock, float]] = {}
        with ThreadPoolExecutor(jobs) as pool:
            # After an error, the series stops when the running blocks finish.
            while queue or going:
                while queue and len(going) < jobs:
                    block = queue.pop()
                    task = pool.submit(blocks.run, block, planned.folder(block), captures=captures)
                    going[task] = (block, time.monotonic())
                for task in wait(going, return_when=FIRST_COMPLETED).done:
                    block, begun = going.pop(task)
                    say(block, task.result(), time.monotonic() - begun)


def rows(out: Path, experiment: str) -> list[TrialRow]:
    """Return an experiment's rows. InputError if there are no rows, or a row is invalid."""
    found = _rows(out / experiment)
    if not found:
        raise InputError(
            f"{out / experiment} has no trials: `firstflight testbed run {experiment}` makes some"
        )
    return found


def rows_of(out: Path, experiments: Sequence[str]) -> dict[str, list[TrialRow]]:
    """Return the rows of the experiments that have any. InputError without rows, or for an invalid row."""
    found = {name: rows for name in experiments if (rows := _rows(out / name))}
    if not found:
        raise InputError(
            f"{out} has no trials of {', '.join(experiments)}: `firstflight testbed run {experiments[0]}` "
            "makes some"
        )
    return found


def _rows(folder: Path) -> list[TrialRow]:
    all_rows: list[TrialRow] = []
    places: dict[tuple[str, int], Path] = {}
    for place, rows in _found(folder):
        for row in rows:
            before = places.setdefault((row["cell"], row["repetition"]), place)
            if before != place:
                raise InputError(
                    f"{place} has repetition {row['repetition']} of {row['cell']}, as {before.name} beside "
                    "it has: remove one of these folders"
                )
            all_rows.append(row)
    return all_rows


def _found(folder: Path) -> Iterator[tuple[Path, list[TrialRow]]]:
    """Yield the folders of all complete blocks of an experiment, with their rows."""
    for place in sorted(file.parent for file in folder.glob(f"*/*/{block_files.ROWS}")):
        # Folders of killed runs have a suffix.
        if not place.suffix:
            yield place, block_files.rows(place)
