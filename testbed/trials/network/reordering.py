"""The datagrams that the link delays longer than others: datagrams that a cell names, and a random share.

Like lost datagrams (losses.py), they are identified by number, so cells that differ in other fields reorder
the same datagrams. netem's `reorder` works differently: it selects packets at random and sends these without
delay, so they overtake others by the path's delay.
"""

from __future__ import annotations

from testbed.experiment.cell import Cell
from testbed.trials.network import losses
from testbed.trials.network.losses import Direction


def reorders(cell: Cell, direction: Direction) -> bool:
    """Return whether any trial in a cell delays datagrams in a direction longer."""
    return bool(_named(cell, direction) or cell.reorder_percent)


def numbers(cell: Cell, direction: Direction, repetition: int) -> tuple[int, ...]:
    """Return the numbers for a trial's delayed datagrams, counted from 1, ascending."""
    # Not the draw of the losses: with equal shares, it would select only datagrams that are lost.
    drawn = losses.share(cell.reorder_percent, f"reordered {direction} {repetition}", cell.body_bytes)
    return tuple(sorted({*_named(cell, direction), *drawn}))


def _named(cell: Cell, direction: Direction) -> tuple[int, ...]:
    return cell.reorder_to_client if direction == "to_client" else cell.reorder_to_server
