"""Child processes that do not outlive us and do not hear the terminal's Ctrl-C unless they should."""

from __future__ import annotations

import ctypes
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from firstflight.errors import UsageError

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent(signum: int = signal.SIGINT) -> None:
    """Ask the kernel to send `signum` to this process when its parent ends, even by kill -9 (prctl(2))."""
    _libc.prctl(_PR_SET_PDEATHSIG, int(signum), 0, 0, 0)


def start(
    argv: Sequence[str],
    *,
    own_session: bool = False,
    stdin: int | IO[bytes] = subprocess.DEVNULL,
    stdout: int | IO[bytes] | None = None,
    stderr: int | IO[bytes] | None = None,
    cwd: Path | None = None,
    env: dict[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a program that gets SIGINT when we end.

    `own_session` keeps the terminal's Ctrl-C from it: then whoever started it stops it, in order. Raises
    UsageError with one sentence if the program is missing or may not be run.
    """
    try:
        # preexec_fn is safe here: our processes have no other threads when they start children.
        return subprocess.Popen(
            argv,
            stdin=stdin,
            bufsize=0,
            stdout=stdout,
            stderr=stderr,
            cwd=cwd,
            env=env,
            start_new_session=own_session,
            preexec_fn=die_with_parent,
        )
    except FileNotFoundError as error:
        raise UsageError(f"the program {argv[0]} was not found; install it or name its path") from error
    except PermissionError as error:
        raise UsageError(f"the program {argv[0]} may not be run by this user") from error


def stop(process: subprocess.Popen[bytes], grace_s: float = 10.0) -> int:
    """Ask a process to end in order (SIGINT), after `grace_s` seconds without asking. Returns its status."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(grace_s)
        except subprocess.TimeoutExpired:
            process.kill()
    return process.wait()
