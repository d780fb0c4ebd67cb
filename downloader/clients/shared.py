"""What the Python clients share: the lists in force, sockets for UDP, and how they speak."""

from __future__ import annotations

import json
import socket
import struct
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from downloader.clients.contract import Answer
from firstflight.egress.current import Trust
from firstflight.egress.permitted import Permitted
from firstflight.errors import UsageError
from firstflight.system import from_outside

UNCONFIRMED = "the opt-out list is not confirmed"
UDP_BUFFER = 8 << 20
# The counters of the interfaces of this process's network namespace (proc_pid_net(5)).
_DEVICES = Path("/proc/self/net/dev")
_LOOK_S = 0.005
_SO_MEMINFO, _MEMINFO_WORDS, _MEMINFO_DROPS = 55, 9, 8


def permitted(arguments: Iterable[str]) -> Permitted:
    """Return what a client's arguments permit: KIND=VALUE, blocklist, optout, allow-net or own.

    `own`: a network of this machine outside of the client's network namespace.
    """
    given: dict[str, list[str]] = {"blocklist": [], "optout": [], "allow-net": [], "own": []}
    for argument in arguments:
        kind, _, value = argument.partition("=")
        if kind not in given:
            raise UsageError(f"{argument}: expected blocklist=, optout=, allow-net= or own=")
        given[kind].append(value)
    lists = [[Path(path) for path in given[kind]] for kind in ("blocklist", "optout")]
    return Permitted(lists[0], lists[1], given["allow-net"], own=given["own"])


def why_not(permitted: Permitted, ip: str, host: str) -> str | None:
    """Return why a download may not begin now; None if it may."""
    if permitted.look_well() < Trust.ALL:
        return UNCONFIRMED
    return permitted.why_not(ip, host)


class Wire:
    """What has arrived in this network namespace since the start, of the limit of one download.

    A body of no byte may come in any number of chunk extensions, of one byte a packet, or of datagrams that
    belong to no stream. The interface counts them all, with the headers of each packet.
    """

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._before = arrived()
        self._next_look = 0.0

    def bytes(self) -> int:
        """Return the bytes that have arrived."""
        return arrived() - self._before

    def is_over(self) -> bool:
        """Return whether the limit is exceeded; it looks every 5 ms at most, for its cost."""
        now = time.monotonic()
        if self._limit is None or now < self._next_look:
            return False
        self._next_look = now + _LOOK_S
        return self.bytes() > self._limit

    def message(self, body: int) -> str:
        """Return what to say of a download that has exceeded the limit."""
        return f"the network brought {self.bytes()} bytes for {body} of the body"


def arrived() -> int:
    """Return the bytes that the interfaces here have received; `lo` counts only if it is alone."""
    counts = {}
    for line in _DEVICES.read_text(encoding="ascii", errors="replace").splitlines()[2:]:
        name, _, numbers = line.partition(":")
        counts[name.strip()] = int(numbers.split()[0])
    others = [count for name, count in counts.items() if name != "lo"]
    return sum(others) if others else counts.get("lo", 0)


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
