"""One process at a time: the lock of an embedded store.

The engine itself refuses a second process, but cannot wait and does not say who is there. This lock lies
beside its files, waits, and names the holder. The kernel drops it when the holder dies, however it dies.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from firstflight.errors import UsageError
from firstflight.store.errors import StoreHeld

NAME = "firstflight.lock"
_POLL_S = 0.05


@contextlib.contextmanager
def held(folder: Path, wait_s: float) -> Iterator[None]:
    """Hold the lock of the store in `folder`, which exists; `StoreHeld` if others keep it for `wait_s`."""
    path = folder / NAME
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise UsageError(f"cannot use the store in {folder}: {error.strerror}") from error
    try:
        _wait(handle, folder, wait_s)
        _sign(handle)
        yield
    finally:
        os.close(handle)  # and with it the lock


def _wait(handle: int, folder: Path, wait_s: float) -> None:
    until = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= until:
                raise StoreHeld(
                    f"the store in {folder} has been held for more than {wait_s:g} s by {_holder(handle)}; "
                    "nothing was done, try again when it has ended"
                ) from None
        time.sleep(_POLL_S)


def _sign(handle: int) -> None:
    """Write who holds it. On a full disk the lock holds all the same, only its holder stays unnamed."""
    command = " ".join([Path(sys.argv[0]).name, *sys.argv[1:]])
    text = json.dumps({"pid": os.getpid(), "command": command, "since": datetime.now(UTC).isoformat()})
    with contextlib.suppress(OSError):
        os.ftruncate(handle, 0)
        os.pwrite(handle, text.encode(), 0)


def _holder(handle: int) -> str:
    try:
        signed = json.loads(os.pread(handle, 65536, 0))
        return f"process {signed['pid']} ({signed['command']}, since {signed['since'][:19]}Z)"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
