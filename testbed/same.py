"""Whether two runs of the same block are the same, byte by byte."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from testbed import block as blocks
from testbed.block import Block
from testbed.cell import Cell

SAMPLE = 12


def sample(cells: Sequence[Cell], count: int = SAMPLE) -> list[Cell]:
    """Return so many cells whose stacks are here, drawn with the same result each time, in their order."""
    here = [cell for cell in cells if blocks.blocks("", cell, 1)[0].unavailable() is None]
    drawn = random.Random(count).sample(range(len(here)), min(count, len(here)))
    return [here[number] for number in sorted(drawn)]


def twice(
    experiment: str, cells: Sequence[Cell], repetitions: int, jobs: int
) -> Iterator[tuple[Block, tuple[str, str]]]:
    """Run the first block of each cell twice, and yield it with the hashes of both.

    Cells with a stack that is unavailable are left out. UsageError if guests cannot be started here.
    """
    chosen = [blocks.blocks(experiment, cell, repetitions)[0] for cell in cells]
    chosen = [block for block in chosen if block.unavailable() is None]
    with tempfile.TemporaryDirectory(prefix="firstflight-testbed.") as folder:

        def hashed(number: int, block: Block) -> str:
            place = Path(folder) / f"{number}" / block.name
            blocks.run(block, place)
            return blocks.digest(place)

        with ThreadPoolExecutor(jobs) as pool:
            pairs = [[pool.submit(hashed, number, block) for number in (1, 2)] for block in chosen]
            for block, (first, second) in zip(chosen, pairs, strict=True):
                yield block, (first.result(), second.result())
