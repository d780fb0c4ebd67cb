"""Stops a remote stage, started by a command such as ssh, when its standard input closes.

Signals and the death of a campaign do not reach a process on another machine. The end of its standard input
does, if the command forwards it. A greeting comes first, so that the stage recognizes such an input.
"""

from __future__ import annotations

import fcntl
import os
import signal
import stat
import sys
import termios
import threading
from types import TracebackType
from typing import Self

from firstflight.system import children

GREETING = b"firstflight: end with this input\n"


class Held:
    """Context manager around the standard input of such a stage; the input also ends with this process."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        os.write(self._write, GREETING)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.let_go()
        os.close(self._read)

    def fileno(self) -> int:
        """Return the descriptor to start the command with."""
        return self._read

    def let_go(self) -> None:
        """End the input."""
        if self._write >= 0:
            os.close(self._write)
            self._write = -1

    def is_forwarded(self) -> bool:
        """Return whether the command has read the greeting, which shows that it forwards its input."""
        unread = fcntl.ioctl(self._read, termios.FIONREAD, bytes(4))
        return not any(unread)


def end_with_input() -> None:
    """Send SIGINT to this process when its standard input ends, if a `Held` is at the other end."""
    if sys.stdin is None:
        return
    mode = os.fstat(0).st_mode
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        return
    # The input also ends when a parent that holds it dies: one signal is enough.
    children.die_with_parent(0)
    # It waits in read(2), without a lock that a child of this process would miss.
    threading.Thread(target=_watch, daemon=True).start()


def _watch() -> None:
    got = b""
    while chunk := os.read(0, 4096):
        got = (got + chunk)[: len(GREETING)]
    if got == GREETING:
        os.kill(os.getpid(), signal.SIGINT)
