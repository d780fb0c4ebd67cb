"""Requests to the supervisor while the lab is up: one JSON line each way, over a Unix socket.

The supervisor holds the expanded Internet in memory, so requests do not need the behaviour file.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from firstflight.errors import FirstflightError, UsageError


def listen(path: Path) -> socket.socket:
    """Open the supervisor's listening socket; replaces a socket file left by a killed lab."""
    path.unlink(missing_ok=True)
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with _Short(path) as short_path:
        server.bind(short_path)
    path.chmod(0o600)
    server.listen()
    return server


def answer(server: socket.socket, handle: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Answer one request; send an error of `handle` to the client. No client can stop the lab."""
    connection, _ = server.accept()
    with connection:
        connection.settimeout(5.0)
        try:
            with connection.makefile("rb") as request:
                reply = handle(json.loads(request.readline()))
        except FirstflightError as error:
            reply = {"error": str(error), "usage": isinstance(error, UsageError)}
        except Exception as error:  # an invalid request, or a program that hangs
            reply = {"error": f"{type(error).__name__}: {error}", "usage": False}
        # The client may have disconnected. Unbuffered: closing a buffer would send the rest again.
        with contextlib.suppress(OSError):
            connection.sendall(json.dumps(reply).encode() + b"\n")


def ask(path: Path, request: dict[str, Any], timeout_s: float = 30.0) -> dict[str, Any]:
    """Send a request to the supervisor; raise the error that it reports."""
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    client.settimeout(timeout_s)
    with client:
        try:
            with _Short(path) as short_path:
                client.connect(short_path)
            with client.makefile("rw", encoding="utf-8") as stream:
                stream.write(json.dumps(request) + "\n")
                stream.flush()
                reply = json.loads(stream.readline())
        except (OSError, ValueError) as error:
            raise FirstflightError(f"the lab's supervisor does not answer at {path}: {error}") from error
    if "error" in reply:
        raise (UsageError if reply["usage"] else FirstflightError)(reply["error"])
    assert isinstance(reply, dict)
    return reply


class _Short:
    """A context with a path to the socket that fits into the 108 bytes of a sockaddr_un at any depth."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> str:
        self._folder = os.open(self._path.parent, os.O_PATH | os.O_DIRECTORY)
        return f"/proc/self/fd/{self._folder}/{self._path.name}"

    def __exit__(self, *_: object) -> None:
        os.close(self._folder)
