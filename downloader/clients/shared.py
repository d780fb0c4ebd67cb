"""Code that the Python clients share: the lists in force, counters of received data, and output."""

from __future__ import annotations

import json
import socket
import struct
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from downloader.clients.contract import ClientAnswer
from firstflight.egress.current import Trust
from firstflight.egress.permitted import Permitted
from firstflight.errors import UsageError
from firstflight.system import from_outside

UNCONFIRMED = "the opt-out list is not confirmed"
UDP_BUFFER = 8 << 20
# Counters of the network interfaces in this process's network namespace (proc_pid_net(5)).
_DEVICES = Path("/proc/self/net/dev")
_LOOK_S = 0.005
_SO_MEMINFO, _MEMINFO_WORDS, _MEMINFO_DROPS = 55, 9, 8


def permitted(arguments: Iterable[str]) -> Permitted:
    """Return the policy that a client's arguments describe: KIND=VALUE; blocklist, optout, allow-net or own.

    `own`: a network of this machine outside of the client's network namespace.
    """
    values: dict[str, list[str]] = {"blocklist": [], "optout": [], "allow-net": [], "own": []}
    for argument in arguments:
        kind, _, value = argument.partition("=")
        if kind not in values:
            raise UsageError(f"{argument}: expected blocklist=, optout=, allow-net= or own=")
        values[kind].append(value)
    lists = [[Path(path) for path in values[kind]] for kind in ("blocklist", "optout")]
    return Permitted(lists[0], lists[1], values["allow-net"], own=values["own"])


def why_not(permitted: Permitted, ip: str, host: str) -> str | None:
    """Return the reason why a download may not start now; `None` if it may start."""
    if permitted.look_until_complete() < Trust.ALL:
        return UNCONFIRMED
    return permitted.why_not(ip, host)


class Wire:
    """Compares the bytes that this network namespace has received with the limit per download.

    Without sending a byte of the body, a server can send any number of chunk extensions, one-byte packets, or
    datagrams that belong to no stream. The interface counts all of these, with each packet's headers.
    """

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._before = arrived()
        self._next_look = 0.0

    def bytes(self) -> int:
        """Return the number of bytes received since construction."""
        return arrived() - self._before

    def is_over(self) -> bool:
        """Return whether the limit is exceeded. Reads the counters at most every 5 ms, to save CPU time."""
        now = time.monotonic()
        if self._limit is None or now < self._next_look:
            return False
        self._next_look = now + _LOOK_S
        return self.bytes() > self._limit

    def message(self, body: int) -> str:
        """Return the message for a download that has exceeded the limit."""
        return f"received {self.bytes()} bytes from the network for {body} bytes of the body"


def arrived() -> int:
    """Return the bytes that all interfaces here have received. `lo` counts only if there is no other."""
    counts = {}
    for line in _DEVICES.read_text(encoding="ascii", errors="replace").splitlines()[2:]:
        name, _, numbers = line.partition(":")
        counts[name.strip()] = int(numbers.split()[0])
    others = [count for name, count in counts.items() if name != "lo"]
    return sum(others) if others else counts.get("lo", 0)


def content_length(headers: Mapping[str, str]) -> int | None:
    """Return a response's Content-Length; `None` if it is absent or not a possible body length."""
    return from_outside.content_length(headers.get("content-length", ""))


def drops(sock: socket.socket) -> int:
    """Return how many datagrams the kernel dropped because the socket's buffer was full (SO_MEMINFO)."""
    words = sock.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, 4 * _MEMINFO_WORDS)
    return int(struct.unpack(f"={_MEMINFO_WORDS}I", words)[_MEMINFO_DROPS])


def say_ready(version: str) -> None:
    """Print a client's first line."""
    _write(json.dumps({"ready": version}).encode() + b"\n")


def say(answer: ClientAnswer) -> None:
    """Print an answer."""
    _write(answer.line())


def _write(line: bytes) -> None:
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()
