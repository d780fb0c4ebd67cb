"""Lock files of runs, stages and embedded stores.

Uses flock: the kernel releases the lock when its holder ends, however it ends. The file names the holder.
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

from firstflight.errors import FirstflightError, UsageError
from firstflight.system.files import explain_os_errors

_POLL_S = 0.05


@contextlib.contextmanager
def locked(
    path: Path, what: str, wait_s: float = 0, refusal: type[FirstflightError] = UsageError
) -> Iterator[None]:
    """Hold the lock at `path` exclusively during the block.

    Raises `refusal` naming the holder if `what` is still locked after `wait_s` seconds; UsageError or
    FirstflightError if the file cannot be created.
    """
    try:
        handle = _open_file(path)
    except FirstflightError as error:
        if isinstance(error.__cause__, PermissionError):
            raise UsageError(f"cannot use {what}: {error.__cause__.strerror} ({path})") from error
        raise
    try:
        _wait(handle, what, wait_s, refusal)
        _write_holder(handle)
        yield
    finally:
        os.close(handle)  # releases the lock


def is_locked(path: Path) -> bool:
    """Return whether a process holds the lock at `path` exclusively."""
    return _is_unavailable(path, fcntl.LOCK_SH)


def holder_pid(path: Path) -> int | None:
    """Return the id of the process that holds the lock at `path` exclusively; None if none or unknown."""
    if not is_locked(path):
        return None
    try:
        return int(json.loads(path.read_bytes())["pid"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


@contextlib.contextmanager
def shared(path: Path) -> Iterator[None]:
    """Hold a shared lock at `path` during the block.

    FirstflightError if the file cannot be created.
    """
    handle = _open_file(path)
    try:
        fcntl.flock(handle, fcntl.LOCK_SH)  # waits at most for a concurrent check
        yield
    finally:
        os.close(handle)


def is_shared(path: Path) -> bool:
    """Return whether a process holds the lock at `path`, exclusive or shared."""
    return _is_unavailable(path, fcntl.LOCK_EX)


def _open_file(path: Path) -> int:
    """Open a lock file; create it if it does not exist."""
    with explain_os_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)


def _is_unavailable(path: Path, kind: int) -> bool:
    """Return whether a lock of that kind (LOCK_SH, LOCK_EX) is unavailable at `path` now."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        try:
            fcntl.flock(file, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


def _wait(handle: int, what: str, wait_s: float, refusal: type[FirstflightError]) -> None:
    until = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= until:
                raise refusal(_refusal(what, wait_s, _describe_holder(handle))) from None
        time.sleep(_POLL_S)


def _refusal(what: str, wait_s: float, holder: str) -> str:
    if not wait_s:
        return f"{what} is in use by {holder}; nothing was done"
    return (
        f"{what} has been held for more than {wait_s:g} s by {holder}; "
        "nothing was done, try again when it has ended"
    )


def _write_holder(handle: int) -> None:
    """Write the holder into the file. On a full disk the lock is valid, but its holder is unnamed."""
    command = " ".join([Path(sys.argv[0]).name, *sys.argv[1:]])
    text = json.dumps({"pid": os.getpid(), "command": command, "since": datetime.now(UTC).isoformat()})
    with contextlib.suppress(OSError):
        os.ftruncate(handle, 0)
        os.pwrite(handle, text.encode(), 0)


def _describe_holder(handle: int) -> str:
    try:
        entry = json.loads(os.pread(handle, 65536, 0))
        return f"process {entry['pid']} ({entry['command']}, since {entry['since'][:19]}Z)"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
