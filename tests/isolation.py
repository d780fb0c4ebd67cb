"""A network namespace of its own for each process of the tests: a loopback, and no way out.

Ports and addresses of one process do not meet those of another, so any test may run beside any other, and
what a fault of ours would send by mistake has no route.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
from pathlib import Path

CLONE_NEWNET = 0x40000000
SIOCGIFFLAGS, SIOCSIFFLAGS = 0x8913, 0x8914
IFF_UP = 1


def enter() -> None:
    """Move the calling thread, and all that it starts from now on, into a new network namespace with `lo` up.

    Raises OSError where the right to make one (CAP_SYS_ADMIN) is missing; `tests/isolated` grants it.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"tests need a network namespace of their own: {os.strerror(error)}; {HOW}")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sH14x", b"lo", 0)
        _, flags = struct.unpack("16sH14x", fcntl.ioctl(any_socket, SIOCGIFFLAGS, request))
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", flags | IFF_UP))


HOW = "run them by `make test`, or by tests/isolated PROGRAM..."


def interfaces() -> list[str]:
    """Names of the interfaces of the calling thread's namespace."""
    return [name for _, name in socket.if_nameindex()]


def routes() -> list[str]:
    """Lines of its IPv4 routing table, without the heading."""
    return Path("/proc/thread-self/net/route").read_text(encoding="ascii").splitlines()[1:]
