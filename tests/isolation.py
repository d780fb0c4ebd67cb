"""A separate network namespace for each test process, with loopback but without routes to other networks.

Ports and addresses of processes do not conflict, so any tests may run in parallel. Packets sent by mistake
have no route. `isolation.py PROGRAM [ARGUMENT...]` runs a program in such a namespace; cargo uses it to run
test binaries.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import sys
from pathlib import Path

CLONE_NEWNET = 0x40000000
SIOCGIFFLAGS, SIOCSIFFLAGS = 0x8913, 0x8914
IFF_UP = 1


def enter() -> None:
    """Move the calling thread, and its later children, into a new network namespace with `lo` up.

    Raises OSError without the right to create one (CAP_SYS_ADMIN), which `tests/isolated` grants.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"tests need a separate network namespace: {os.strerror(error)}; {HOW}")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sH14x", b"lo", 0)
        _, flags = struct.unpack("16sH14x", fcntl.ioctl(any_socket, SIOCGIFFLAGS, request))
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", flags | IFF_UP))


HOW = "run them by `make test`, or by tests/isolated PROGRAM..."


def interfaces() -> list[str]:
    """Return the names of the interfaces of the calling thread's namespace."""
    return [name for _, name in socket.if_nameindex()]


def routes() -> list[str]:
    """Return the lines of the namespace's IPv4 routing table, without the heading."""
    return Path("/proc/thread-self/net/route").read_text(encoding="ascii").splitlines()[1:]


if __name__ == "__main__":
    enter()
    try:
        os.execvp(sys.argv[1], sys.argv[1:])
    except OSError as error:
        sys.exit(f"cannot start {sys.argv[1]}: {error.strerror}")
