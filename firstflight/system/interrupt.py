"""Ctrl-C during a query: the engine runs in this process, and Python handles no signal until it returns."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from firstflight.errors import Interrupted

GRACE_S = 1.0
"""Time for a graceful end: a query to a server can end by closing its connection."""


@contextmanager
def exit_on_sigint() -> Iterator[None]:
    """Let SIGINT end the process with status 130 in this block, even while the engine runs a query.

    Only for reading: nothing is cleaned up; the kernel releases locks and memory. Must be entered by the main
    thread; where Python handles the signal, it raises KeyboardInterrupt as usual.
    """
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    over = threading.Event()

    def watch() -> None:
        while number := os.read(reading, 1):
            if number[0] == signal.SIGINT and not over.wait(GRACE_S):
                os.write(2, b"firstflight: interrupted\n")
                os._exit(Interrupted.exit_status)

    watching = threading.Thread(target=watch, name="ctrl-c", daemon=True)
    watching.start()
    try:
        yield
    finally:
        over.set()
        signal.set_wakeup_fd(before)
        os.close(writing)  # end of file for the thread
        watching.join()
        os.close(reading)
