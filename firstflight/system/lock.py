"""Lock files of runs, stages and embedded stores.

The kernel releases a lock when the holder exits, even after kill -9. Exclusive locks use flock(2), and the
file describes the holder. Shared locks belong to the open file description (fcntl(2), F_OFD_SETLK). A process
can test for them without taking a lock, so a check never disturbs a holder or another check.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import struct
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from firstflight.errors import FirstflightError, UsageError
from firstflight.system import terminal
from firstflight.system.files import explain_os_errors

_POLL_S = 0.05
_CHECK_S = 60.0
# After this time, a waiting process prints what it waits for.
_TELL_S = 1.0
# struct flock of fcntl(2) on 64 bits: type, whence, start, length (0: all), process (0: no process).
_FLOCK = struct.Struct("hhqqi4x")


@contextlib.contextmanager
def locked(
    path: Path, what: str, wait_s: float = 0, refusal: type[FirstflightError] = UsageError
) -> Iterator[None]:
    """Hold the lock at `path` exclusively during the block.

    Raise `refusal` with the holder if `what` is still locked after `wait_s` seconds. Raise UsageError or
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


@contextlib.contextmanager
def locked_descriptors(path: Path) -> Iterator[Sequence[int]]:
    """Lock the file or folder at `path`. Yield descriptors for a program to start in the block (`pass_fds`).

    The program holds the lock until it exits, even if this process is killed first. Waits for another holder.
    On a file system without such locks, there is no lock. Raise FirstflightError if `path` cannot be opened.
    """
    with explain_os_errors(path):
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield (handle,)
    finally:
        os.close(handle)


def is_locked(path: Path) -> bool:
    """Return whether a process holds an exclusive lock at `path`, a file or a folder."""
    if not path.exists():
        return False
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return not _is_free(handle)
    finally:
        os.close(handle)


def wait_until_free(path: Path, wait_s: float) -> bool:
    """Wait at most `wait_s` s until no process locks `path` exclusively. Return whether it is unlocked."""
    until = time.monotonic() + wait_s
    while is_locked(path):
        if time.monotonic() > until:
            return False
        time.sleep(_POLL_S)
    return True


def holder_pid(path: Path) -> int | None:
    """Return the id of the process with an exclusive lock at `path`; `None` if unlocked or unknown."""
    if not is_locked(path):
        return None
    try:
        return int(json.loads(path.read_bytes())["pid"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


@contextlib.contextmanager
def shared(path: Path) -> Iterator[None]:
    """Hold a shared lock at `path` during the block.

    Raise FirstflightError if the file cannot be created.
    """
    handle = _open_file(path)
    try:
        fcntl.fcntl(handle, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0))
        yield
    finally:
        os.close(handle)


def is_shared(path: Path) -> bool:
    """Return whether a process holds a shared lock at `path`."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        request = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        answer = _FLOCK.unpack(fcntl.fcntl(file, fcntl.F_OFD_GETLK, request))
    return bool(answer[0] != fcntl.F_UNLCK)


def _open_file(path: Path) -> int:
    """Open a lock file. Creates it if it does not exist."""
    with explain_os_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)


def _is_free(handle: int) -> bool:
    """Return whether no process holds the lock exclusively.

    Holds a shared lock for a moment. Other checks do not notice this.
    """
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True  # a file system without such locks, such as NFS for folders
    fcntl.flock(handle, fcntl.LOCK_UN)
    return True


def _wait(handle: int, what: str, wait_s: float, refusal: type[FirstflightError]) -> None:
    started = time.monotonic()
    until = started + wait_s
    is_reported = wait_s <= _TELL_S
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if not is_reported and time.monotonic() - started >= _TELL_S and not _is_free(handle):
                is_reported = True
                terminal.echo(
                    f"waiting at most {wait_s:g} s for {what}, in use by {_describe_holder(handle)}", err=True
                )
            # A checking process has the lock for a moment, or for longer if it is suspended.
            late_s = time.monotonic() - until
            if late_s >= _CHECK_S or (late_s >= 0 and not _is_free(handle)):
                raise refusal(_refusal(what, wait_s, _describe_holder(handle))) from None
        time.sleep(_POLL_S)


def _refusal(what: str, wait_s: float, holder: str) -> str:
    if not wait_s:
        return f"{what} is in use by {holder}; nothing was done"
    return (
        f"{what} has been held for more than {wait_s:g} s by {holder}; "
        "nothing was done; try again when it has finished"
    )


def _write_holder(handle: int) -> None:
    """Write the holder to the file. On a full disk the lock is valid, but the holder stays unknown."""
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
