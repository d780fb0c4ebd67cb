"""Whether two runs of the same block are the same, byte by byte."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from testbed import block as blocks
from testbed import stacks
from testbed.block import Block
from testbed.cell import Cell


def repeatable(cell: Cell) -> bool:
    """Return whether two runs of a cell are the same bytes: not with a client for which the clock goes on."""
    return not stacks.find(cell.client).polls


def sample(cells: Sequence[Cell]) -> list[Cell]:
    """Return cells of pairs of stacks that are here, in their order; each time the same draw.

    Each stack is in one of them at least, on either side.
    """
    pairs: dict[tuple[str, str], list[int]] = {}
    for number, cell in enumerate(cells):
        if blocks.blocks("", cell, 1)[0].unavailable() is None and repeatable(cell):
            pairs.setdefault((cell.client, cell.server), []).append(number)
    # Other pairs in each experiment.
    draw = random.Random(cells[0].model_dump_json() if cells else None)
    order = list(pairs)
    draw.shuffle(order)
    present: set[tuple[str, int]] = set()
    chosen = []
    for pair in order:
        sides = {(stack, side) for side, stack in enumerate(pair)}
        if not sides <= present:
            present |= sides
            chosen.append(draw.choice(pairs[pair]))
    return [cells[number] for number in sorted(chosen)]


def twice(
    experiment: str, cells: Sequence[Cell], repetitions: int, jobs: int
) -> Iterator[tuple[Block, tuple[str | None, str | None]]]:
    """Run the first block of each cell twice, and yield it with the hashes of both.

    None stands for a guest that failed.

    Cells with a stack that is unavailable are left out, and those that are not repeatable. UsageError if
    guests cannot be started here.
    """
    chosen = [blocks.blocks(experiment, cell, repetitions)[0] for cell in cells if repeatable(cell)]
    chosen = [block for block in chosen if block.unavailable() is None]
    with tempfile.TemporaryDirectory(prefix="firstflight-testbed.") as folder:

        def hashed(number: int, block: Block) -> str | None:
            place = Path(folder) / f"{number}" / block.name
            rows = blocks.run(block, place)
            failed = any(row["outcome"] == "guest_failed" for row in rows)
            return None if failed else blocks.digest(place)

        with ThreadPoolExecutor(jobs) as pool:
            pairs = [[pool.submit(hashed, number, block) for number in (1, 2)] for block in chosen]
            for block, (first, second) in zip(chosen, pairs, strict=True):
                yield block, (first.result(), second.result())
