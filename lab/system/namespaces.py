"""Enters Linux namespaces (setns(2)), for which Python 3.11 has no function.

Imports little: every `firstflight lab exec` runs through this module.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

# Alias of `lo` in every host's namespace: marks where addresses that only the lab may contact are allowed.
MARK = "firstflight-lab"
NETNS = Path("/run/netns")  # of `ip netns`; on the lab's private tmpfs

CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000

_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_RAISE = 2
_CAPABILITY_VERSION_3 = 0x20080522

_libc = ctypes.CDLL(None, use_errno=True)


def enter(path: str | Path, kind: int) -> None:
    """Move this thread into the namespace at `path`; OSError if it does not exist or must not be entered."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if _libc.setns(fd, kind) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(path))
    finally:
        os.close(fd)


def entering(host: str) -> Callable[[], None]:
    """Return a function that moves a child into a host's network namespace (for `preexec_fn`)."""
    return lambda: enter(NETNS / host, CLONE_NEWNET)


@contextlib.contextmanager
def inside(host: str) -> Iterator[None]:
    """Run the block in a host's network namespace; only for single-threaded processes."""
    previous = f"/proc/self/fd/{os.open('/proc/self/ns/net', os.O_RDONLY | os.O_CLOEXEC)}"
    try:
        enter(NETNS / host, CLONE_NEWNET)
        yield
    finally:
        enter(previous, CLONE_NEWNET)
        os.close(int(previous.rsplit("/", 1)[1]))


def keep_capabilities() -> None:
    """Let child programs keep this process's capabilities without being root (capabilities(7), ambient)."""
    header = struct.pack("<Ii", _CAPABILITY_VERSION_3, 0)
    data = ctypes.create_string_buffer(24)
    if _libc.capget(header, data) != 0:
        raise OSError(ctypes.get_errno(), "cannot read capabilities")
    effective, permitted, _, effective_high, permitted_high, _ = struct.unpack("<6I", data.raw)
    inherited = struct.pack(
        "<6I", effective, permitted, permitted, effective_high, permitted_high, permitted_high
    )
    if _libc.capset(header, inherited) != 0:
        raise OSError(ctypes.get_errno(), "cannot set capabilities")
    capabilities = permitted | permitted_high << 32
    for capability in range(64):
        if capabilities >> capability & 1:
            _libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, capability, 0, 0)
