"""Records signals while a child runs, instead of raising between two statements of its owner."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

STOPPING = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def noted_signals() -> Iterator[Callable[[], bool]]:
    """Record SIGINT and SIGTERM in this block; gives a function that returns whether one has arrived.

    If the block ends with an exception, the signals stay disabled, so that a second signal does not interrupt
    the caller's writing. A second one can come from a campaign that also sees the stop file, or from an
    impatient user. Otherwise the earlier handlers are restored. Must be entered by the main thread.
    """
    arrived = False

    def note(_signal: int, _frame: object) -> None:
        nonlocal arrived
        arrived = True

    before = {number: signal.signal(number, note) for number in STOPPING}
    yield lambda: arrived
    for number, handler in before.items():
        signal.signal(number, handler)
