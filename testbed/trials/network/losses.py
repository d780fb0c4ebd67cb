"""The datagrams that random loss drops. Only loss rate, direction and repetition determine them.

Cells that differ in other fields lose the same datagrams in the same repetition, so they can be compared in
pairs. A queueing discipline's random numbers would diverge once one cell sends an additional packet.
"""

from __future__ import annotations

import random
from typing import Literal

from testbed.experiment.cell import Cell

Direction = Literal["to_client", "to_server"]
_SMALLEST_BYTES = 1000


def lost_datagrams(cell: Cell, direction: Direction, repetition: int) -> tuple[int, ...]:
    """Return the numbers for a trial's lost datagrams in a direction, counted from 1, ascending.

    Numbers stop at several times the datagrams that a trial needs; later datagrams are not lost.
    """
    return share(cell.loss_percent, f"{direction} {repetition}", cell.body_bytes)


def share(percent: float, of: str, body_bytes: int) -> tuple[int, ...]:
    """Return a random share of the datagram numbers, determined by `percent` and `of`.

    `body_bytes`: the size of the trial's response, which limits the number of datagrams.
    """
    if not percent:
        return ()
    draw = random.Random(f"{percent:g} {of}")
    reach = 1000 + 4 * body_bytes // _SMALLEST_BYTES
    return tuple(number for number in range(1, reach + 1) if draw.random() * 100 < percent)
