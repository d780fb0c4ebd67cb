"""A browser controlled by the DevTools protocol over a pipe: JSON messages, each ending in a zero byte."""

from __future__ import annotations

import fcntl
import json
import os
import select
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import Any

from firstflight.errors import FirstflightError
from firstflight.system import children

LONGEST = 16 << 20
"""Maximum bytes in a message."""
_STOP_S = 5.0
# The browser reads descriptor 3 and writes descriptor 4. Ours are higher, so the shell keeps them.
_SHELL = 'exec "$@" 3<&"$FROM" 4>&"$TO"'
_ABOVE = 10


class BrowserClosed(FirstflightError):
    """The browser closed its pipe."""


class DevTools:
    """A browser's process and its pipe."""

    def __init__(self, argv: Sequence[str], environment: Mapping[str, str]) -> None:
        reads, self._commands = _pipe()
        self._messages, writes = _pipe()
        try:
            self._process = children.start(
                ["bash", "-c", _SHELL, "bash", *argv, "--remote-debugging-pipe"],
                own_session=True,
                stdout=subprocess.DEVNULL,
                env={**environment, "FROM": str(reads), "TO": str(writes)},
                pass_fds=(reads, writes),
            )
        finally:
            os.close(reads)
            os.close(writes)
        self._read = b""
        self._last = 0

    def command(
        self, method: str, end: float, session: str | None = None, **parameters: Any
    ) -> dict[str, Any]:
        """Return a command's result, in a `session` with a page or with the browser itself.

        TimeoutError at `end` (a time of time.monotonic); FirstflightError if the browser refuses it,
        BrowserClosed if the browser has exited.
        """
        self._last += 1
        message: dict[str, Any] = {"id": self._last, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        try:
            os.write(self._commands, json.dumps(message).encode() + b"\0")
        except BrokenPipeError as error:
            raise BrowserClosed("the browser is gone: see standard error") from error
        # A message without a number is an event.
        while (answer := self._message(end)).get("id") != self._last:
            pass
        if "error" in answer:
            raise FirstflightError(f"the browser refuses {method}: {answer['error'].get('message')}")
        return dict(answer["result"])

    def close(self) -> None:
        """Stop the browser."""
        children.stop(self._process, _STOP_S)
        os.close(self._commands)
        os.close(self._messages)

    def _message(self, end: float) -> dict[str, Any]:
        poll = select.poll()
        poll.register(self._messages, select.POLLIN)
        while b"\0" not in self._read:
            remaining_s = end - time.monotonic()
            if remaining_s <= 0 or not poll.poll(remaining_s * 1000):
                raise TimeoutError("the browser says nothing")
            chunk = os.read(self._messages, 1 << 16)
            self._read += chunk
            if not chunk:
                raise BrowserClosed("the browser is gone: see standard error")
            if len(self._read) > LONGEST:
                raise BrowserClosed(f"the browser's message has more than {LONGEST} bytes")
        text, _, self._read = self._read.partition(b"\0")
        return dict(json.loads(text))


def _pipe() -> tuple[int, int]:
    """Return both ends of a pipe, with descriptors above the browser's."""
    ends = os.pipe()
    above = tuple(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, _ABOVE) for end in ends)
    for end in ends:
        os.close(end)
    return above[0], above[1]
