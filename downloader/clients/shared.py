"""What the Python clients share: the lists in force, sockets for UDP, and how they speak."""

from __future__ import annotations

import json
import socket
import struct
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from downloader.clients.contract import Answer
from firstflight.egress.current import Trust
from firstflight.egress.permitted import Permitted
from firstflight.errors import UsageError
from firstflight.system import from_outside

UNCONFIRMED = "the opt-out list is not confirmed"
UDP_BUFFER = 8 << 20
_SO_MEMINFO, _MEMINFO_WORDS, _MEMINFO_DROPS = 55, 9, 8


def permitted(arguments: Iterable[str]) -> Permitted:
    """Return what the lists of a client's arguments permit: KIND=VALUE, blocklist, optout or allow-net."""
    given: dict[str, list[str]] = {"blocklist": [], "optout": [], "allow-net": []}
    for argument in arguments:
        kind, _, value = argument.partition("=")
        if kind not in given:
            raise UsageError(f"{argument}: expected blocklist=, optout= or allow-net=")
        given[kind].append(value)
    lists = [[Path(path) for path in given[kind]] for kind in ("blocklist", "optout")]
    return Permitted(lists[0], lists[1], given["allow-net"])


def why_not(permitted: Permitted, ip: str, host: str) -> str | None:
    """Return why a download may not begin now; None if it may."""
    if permitted.look_well() < Trust.ALL:
        return UNCONFIRMED
    return permitted.why_not(ip, host)


def content_length(headers: Mapping[str, str]) -> int | None:
    """Return the Content-Length of a response; None if it has none, or none that a body can have."""
    return from_outside.content_length(headers.get("content-length", ""))


def drops(sock: socket.socket) -> int:
    """Return how many datagrams the kernel dropped because a socket's buffer was full (SO_MEMINFO)."""
    words = sock.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, 4 * _MEMINFO_WORDS)
    return int(struct.unpack(f"={_MEMINFO_WORDS}I", words)[_MEMINFO_DROPS])


def say_ready(version: str) -> None:
    """Print the line that a client begins with."""
    _write(json.dumps({"ready": version}).encode() + b"\n")


def say(answer: Answer) -> None:
    """Print an answer."""
    _write(answer.line())


def _write(line: bytes) -> None:
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()
