"""Compares two runs of the same block, byte by byte."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from firstflight.system import files, lock
from testbed import stacks
from testbed.experiment.cell import Cell
from testbed.guest.cache_folder import cache
from testbed.trials import block as blocks
from testbed.trials.block import TrialBlock
from testbed.trials.captures import block_files

_HELD = "held"
"""The lock in a folder of two runs in progress."""


def repeatable(cell: Cell) -> bool:
    """Return whether two runs of a cell give the same bytes: not if the client's clock never stops."""
    return not stacks.find(cell.client).polls


def sample(cells: Sequence[Cell]) -> list[Cell]:
    """Return a sample of cells with available stacks, in their order. The sample is always the same.

    Each stack occurs at least once on each side.
    """
    pairs: dict[tuple[str, str], list[int]] = {}
    for number, cell in enumerate(cells):
        if blocks.blocks("", cell, 1)[0].unavailable() is None and repeatable(cell):
            pairs.setdefault((cell.client, cell.server), []).append(number)
    # The draw differs between experiments.
    draw = random.Random(blocks.seed_text(cells[0], ()) if cells else None)
    order = list(pairs)
    draw.shuffle(order)
    present: set[tuple[str, int]] = set()
    sampled = []
    for pair in order:
        sides = {(stack, side) for side, stack in enumerate(pair)}
        if not sides <= present:
            present |= sides
            sampled.append(draw.choice(pairs[pair]))
    return [cells[number] for number in sorted(sampled)]


@dataclass(frozen=True)
class Twice:
    """Two runs of a block: their hashes (`None` for a failed guest), and the outcomes of their trials."""

    block: TrialBlock
    hashes: tuple[str | None, str | None]
    outcomes: frozenset[str]

    @property
    def not_done(self) -> list[str]:
        """Return the outcomes of trials that were not done."""
        return sorted(self.outcomes - {"done"})

    @property
    def failed(self) -> bool:
        """Return whether a guest failed."""
        return None in self.hashes

    @property
    def same(self) -> bool:
        """Return whether both runs gave the same bytes; false if both failed."""
        return not self.failed and self.hashes[0] == self.hashes[1]


def run_twice(experiment: str, cells: Sequence[Cell], repetitions: int, jobs: int) -> Iterator[Twice]:
    """Run the first block of each cell twice, and yield the results.

    Cells that are not repeatable or have an unavailable stack are skipped. UsageError if guests cannot start
    here.
    """
    chosen = [blocks.blocks(experiment, cell, repetitions)[0] for cell in cells if repeatable(cell)]
    chosen = [block for block in chosen if block.unavailable() is None]
    blocks.check(2 * chosen, jobs)
    with _scratch() as folder:

        def hashed(number: int, block: TrialBlock) -> tuple[str | None, set[str]]:
            place = folder / f"{number}" / block.name
            outcomes = {row["outcome"] for row in blocks.run(block, place)}
            return None if "guest_failed" in outcomes else block_files.digest(place), outcomes

        with ThreadPoolExecutor(jobs) as pool:
            pairs = [[pool.submit(hashed, number, block) for number in (1, 2)] for block in chosen]
            for block, (first, second) in zip(chosen, pairs, strict=True):
                (first_hash, outcomes), (second_hash, more) = first.result(), second.result()
                yield Twice(block, (first_hash, second_hash), frozenset(outcomes | more))


@contextmanager
def _scratch() -> Iterator[Path]:
    """Yield an empty folder and remove it at the end. After a kill, the next start removes it."""
    place = cache() / "twice"
    with files.explain_os_errors(place):
        place.mkdir(parents=True, exist_ok=True)
    with ExitStack() as holding:
        # Keep this lock until the new folder has its own, so no other process treats the folder as abandoned.
        with lock.locked(place / "lock", "the testbed's folder for two runs", wait_s=60):
            for unfinished in place.iterdir():
                if unfinished.is_dir() and not lock.is_locked(unfinished / _HELD):
                    shutil.rmtree(unfinished, ignore_errors=True)
            folder = Path(tempfile.mkdtemp(dir=place))
            holding.enter_context(lock.locked(folder / _HELD, f"the folder {folder}"))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
