"""Records signals while a child runs, instead of raising between two statements of the caller."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

STOPPING = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def noted_signals() -> Iterator[Callable[[], bool]]:
    """Record SIGINT and SIGTERM in this block. Yields a function that returns whether a signal has arrived.

    If the block raises, the signals stay disabled, so that a second signal does not interrupt the caller
    while it writes. A second signal may come from a campaign that also sees the stop file, or from an
    impatient user. Otherwise the earlier handlers are restored. The main thread must enter the block.
    """
    arrived = False

    def note(_signal: int, _frame: object) -> None:
        nonlocal arrived
        arrived = True

    previous = {number: signal.signal(number, note) for number in STOPPING}
    yield lambda: arrived
    for number, handler in previous.items():
        signal.signal(number, handler)
