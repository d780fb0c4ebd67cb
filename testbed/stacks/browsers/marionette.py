"""A browser controlled by the Marionette protocol over TCP: JSON arrays, each prefixed with its length."""

from __future__ import annotations

import json
import socket
import time
from typing import Any

from firstflight.errors import FirstflightError

LONGEST = 16 << 20
"""Maximum bytes in a message."""
_AGAIN_S = 0.05


class Marionette:
    """A connection to a browser on loopback."""

    def __init__(self, port: int, end: float) -> None:
        """Wait until the browser listens; TimeoutError at `end` (a time of time.monotonic)."""
        self._socket = _connected(port, end)
        self._read = b""
        self._last = 0
        self._message(end)  # the browser's greeting

    def command(self, name: str, end: float, **parameters: Any) -> Any:
        """Return a command's result.

        TimeoutError at `end`; FirstflightError if the browser refuses the command or has exited.
        """
        self._last += 1
        text = json.dumps([0, self._last, name, parameters]).encode()
        try:
            self._socket.sendall(f"{len(text)}:".encode() + text)
        except OSError as error:
            raise FirstflightError("the browser is gone: see standard error") from error
        while True:
            answer = self._message(end)
            if isinstance(answer, list) and answer[:2] == [1, self._last]:
                break
        if answer[2] is not None:
            raise FirstflightError(f"the browser refuses {name}: {answer[2].get('message')}")
        return answer[3]

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def _message(self, end: float) -> Any:
        while True:
            digits, colon, rest = self._read.partition(b":")
            if colon and len(rest) >= (length := int(digits)):
                self._read = rest[length:]
                return json.loads(rest[:length])
            remaining_s = end - time.monotonic()
            if remaining_s <= 0:
                raise TimeoutError("the browser says nothing")
            self._socket.settimeout(remaining_s)
            try:
                chunk = self._socket.recv(1 << 16)
            except TimeoutError:
                raise
            except OSError as error:
                raise FirstflightError("the browser is gone: see standard error") from error
            self._read += chunk
            if not chunk:
                raise FirstflightError("the browser is gone: see standard error")
            if len(self._read) > LONGEST:
                raise FirstflightError(f"the browser's message has more than {LONGEST} bytes")


def _connected(port: int, end: float) -> socket.socket:
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=1)
        except OSError as error:
            if time.monotonic() >= end:
                raise TimeoutError("the browser does not listen") from error
        time.sleep(_AGAIN_S)
