"""Which datagrams the link holds back: those that a cell names, and a random share.

They are known by number, as lost ones are (losses.py), so cells that differ in anything else have the
same ones out of order. netem's `reorder` is another thing: it draws for each packet, and those that it draws
do not wait at all, so how far they overtake others is the path's delay.
"""

from __future__ import annotations

from testbed.experiment.cell import Cell
from testbed.trials.network import losses
from testbed.trials.network.losses import Direction


def reorders(cell: Cell, direction: Direction) -> bool:
    """Return whether datagrams of a direction are held back in any trial of a cell."""
    return bool(_named(cell, direction) or cell.reorder_percent)


def numbers(cell: Cell, direction: Direction, repetition: int) -> tuple[int, ...]:
    """Return the numbers, from 1, of the datagrams of one trial that are held back, ascending."""
    # Another draw than the lost ones: of both with the same share none would be left to be late.
    drawn = losses.share(cell.reorder_percent, f"reordered {direction} {repetition}", cell.body_bytes)
    return tuple(sorted({*_named(cell, direction), *drawn}))


def _named(cell: Cell, direction: Direction) -> tuple[int, ...]:
    return cell.reorder_to_client if direction == "to_client" else cell.reorder_to_server
