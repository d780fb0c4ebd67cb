"""Which datagrams random loss takes: drawn from the loss, the direction and the repetition alone.

So cells that differ in anything else lose the same datagrams in the same repetition, and can be compared in
pairs. A queueing discipline's own random numbers would differ after the first packet that one cell has more.
"""

from __future__ import annotations

import random
from typing import Literal

from testbed.experiment.cell import Cell

Direction = Literal["to_client", "to_server"]
_SMALLEST_BYTES = 1000


def drawn(cell: Cell, direction: Direction, repetition: int) -> tuple[int, ...]:
    """Return the numbers, from 1, of the datagrams of one trial that are lost in a direction, ascending.

    Beyond several times the datagrams that a trial needs none is lost.
    """
    return share(cell.loss_percent, f"{direction} {repetition}", cell.body_bytes)


def share(percent: float, of: str, body_bytes: int) -> tuple[int, ...]:
    """Return a random share of the datagrams' numbers; it follows from `percent` and `of`.

    `body_bytes`: of the trial's response, for the number of its datagrams.
    """
    if not percent:
        return ()
    draw = random.Random(f"{percent:g} {of}")
    reach = 1000 + 4 * body_bytes // _SMALLEST_BYTES
    return tuple(number for number in range(1, reach + 1) if draw.random() * 100 < percent)
