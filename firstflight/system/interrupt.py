"""Ctrl-C while the engine thinks: it runs in our process, and Python hears of no signal until it returns."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from firstflight.errors import Interrupted

GRACE_S = 1.0
"""Time for an orderly end, which a question to a server has; its connection is closed then."""


@contextmanager
def exit_on_sigint() -> Iterator[None]:
    """In this block SIGINT ends the process with status 130, even while the engine answers a question.

    Only for what reads: nothing is cleaned up, and the kernel gives back locks and memory. To be entered by
    the main thread; where Python does hear the signal, KeyboardInterrupt is raised as always.
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
        os.close(writing)  # the end of what the thread reads
        watching.join()
        os.close(reading)
