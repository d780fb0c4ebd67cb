"""Ctrl-C during a query. The engine runs in this process, and Python handles no signal until it returns."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from firstflight.errors import Interrupted

GRACE_S = 1.0
"""Time for a graceful end. A query to a server can stop by closing the connection."""


@contextmanager
def exit_on_sigint() -> Iterator[None]:
    """Let SIGINT exit the process with status 130 during this block, even while the engine runs a query.

    Only for reading: there is no cleanup; the kernel releases locks and memory. The main thread must enter
    the block. When Python handles the signal, it raises KeyboardInterrupt as usual.
    """
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    previous = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    ended = threading.Event()

    def watch() -> None:
        while number := os.read(reading, 1):
            if number[0] == signal.SIGINT and not ended.wait(GRACE_S):
                os.write(2, b"firstflight: interrupted\n")
                os._exit(Interrupted.exit_status)

    thread = threading.Thread(target=watch, name="ctrl-c", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        signal.set_wakeup_fd(previous)
        os.close(writing)  # end of file for the thread
        thread.join()
        os.close(reading)
