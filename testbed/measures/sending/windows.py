"""Reductions of a congestion window, and rollbacks that undo them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_GROWTH_BYTES = 2 * 1350
"""Maximum growth of a window by one ACK: one or two datagrams. A rollback grows it by more."""


@dataclass(frozen=True)
class CongestionWindow:
    """A congestion window at a time in ns: the bytes, and the number of packets lost until then."""

    time_ns: int
    size: int
    lost: int


def reductions(
    windows: Sequence[CongestionWindow],
) -> Iterator[tuple[CongestionWindow, CongestionWindow | None]]:
    """Yield each reduction, and the rollback of the window before the next reduction, or `None`.

    quiche 0.30 rolls back if it lost fewer packets than a fifth of the window
    (src/recovery/congestion/cubic.rs, `rollback`): the window returns to the size before the reduction.
    """
    changes = [(window, other) for window, other in itertools.pairwise(windows) if window.size != other.size]
    starts = [number for number, (window, other) in enumerate(changes) if other.size < window.size]
    for start, end in itertools.pairwise([*starts, len(changes)]):
        before, after = changes[start]
        back = (
            other
            for window, other in changes[start + 1 : end]
            if other.size == before.size and other.size - window.size > _GROWTH_BYTES
        )
        yield after, next(back, None)


def rolling_ns(windows: Sequence[CongestionWindow]) -> int:
    """Return the longest time, in ns, in which every reduction was rolled back to the same window."""
    longest = begun = size = 0
    for reduction, back in reductions(windows):
        if back is None:
            size = 0
            continue
        begun = begun if back.size == size else reduction.time_ns
        size = back.size
        longest = max(longest, back.time_ns - begun)
    return longest
