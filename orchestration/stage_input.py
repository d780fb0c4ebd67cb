"""Stops a remote stage, started by a command such as ssh, when its standard input closes.

Signals do not reach a process on another machine, and it does not notice the death of the campaign. If the
command forwards the standard input, the process notices when the input ends. The input starts with a
greeting, so that the stage recognizes such an input.
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


class StageInput:
    """Context manager for the standard input of such a stage; it also closes when this process dies."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        os.write(self._write, GREETING)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close_input()
        os.close(self._read)

    def fileno(self) -> int:
        """Return the descriptor to start the command with."""
        return self._read

    def close_input(self) -> None:
        """Close the input."""
        if self._write >= 0:
            os.close(self._write)
            self._write = -1

    def is_forwarded(self) -> bool:
        """Return whether the command has read the greeting, which shows that it forwards its input."""
        unread = fcntl.ioctl(self._read, termios.FIONREAD, bytes(4))
        return not any(unread)


def end_with_input() -> None:
    """Send SIGINT to this process when its standard input closes, if a `StageInput` has sent the greeting."""
    if sys.stdin is None:
        return
    mode = os.fstat(0).st_mode
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        return
    # Disable the signal for the death of the parent: its death also closes the input, and one signal is
    # enough.
    children.die_with_parent(0)
    # It waits in read(2), without a lock that a child of this process would miss.
    threading.Thread(target=_watch, daemon=True).start()


def _watch() -> None:
    got = b""
    while chunk := os.read(0, 4096):
        got = (got + chunk)[: len(GREETING)]
    if got == GREETING:
        os.kill(os.getpid(), signal.SIGINT)
