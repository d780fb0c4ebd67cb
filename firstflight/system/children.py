"""Child processes that stop with this process, with or without the terminal's Ctrl-C."""

from __future__ import annotations

import ctypes
import resource
import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

from firstflight.errors import Interrupted, UsageError

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent(signum: int = signal.SIGINT) -> None:
    """Let the kernel send `signum` to this process when the parent exits, even after kill -9 (prctl(2))."""
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
    pass_fds: Sequence[int] = (),
    max_file_bytes: int | None = None,
) -> subprocess.Popen[bytes]:
    """Start a program that receives SIGINT when this process exits.

    `own_session` isolates it from the terminal's Ctrl-C, so the caller must stop it. Descriptors in
    `pass_fds` stay open in it. `max_file_bytes` limits the size of each file that it writes; larger writes
    fail with EFBIG (setrlimit(2), RLIMIT_FSIZE). Raise UsageError if the program is missing or not
    executable.
    """

    def prepare() -> None:
        die_with_parent()
        if max_file_bytes is not None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (max_file_bytes, max_file_bytes))

    try:
        # preexec_fn is safe here: when this process starts children, its only other thread waits in read(2)
        # (orchestration/stage_input.py).
        return subprocess.Popen(
            argv,
            stdin=stdin,
            bufsize=0,
            stdout=stdout,
            stderr=stderr,
            cwd=cwd,
            env=env,
            start_new_session=own_session,
            pass_fds=pass_fds,
            preexec_fn=prepare,
        )
    except FileNotFoundError as error:
        raise UsageError(f"the program {argv[0]} was not found; install it or name its path") from error
    except PermissionError as error:
        raise UsageError(f"this user may not run the program {argv[0]}") from error


def stop(process: subprocess.Popen[bytes], grace_s: float = 10.0) -> int:
    """Stop a process with SIGINT, and with SIGKILL after `grace_s` seconds. Return the exit status."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(grace_s)
        except subprocess.TimeoutExpired:
            process.kill()
    return process.wait()


def wait(process: subprocess.Popen[bytes], watch: Callable[[], None], every_s: float = 0.1) -> int:
    """Return the exit status of a process. Call `watch` every `every_s` seconds meanwhile; it may raise."""
    while True:
        try:
            return process.wait(every_s)
        except subprocess.TimeoutExpired:
            watch()


def wait_for_exit(process: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
    """Wait until a process exits. Return its standard output and standard error, empty if not piped.

    On Ctrl-C, stop the process and raise Interrupted.
    """
    try:
        stdout, stderr = process.communicate()
    except KeyboardInterrupt as error:
        stop(process)
        raise Interrupted("stopped by a signal; the stage can be run again") from error
    except BaseException:
        stop(process)
        raise
    return stdout or b"", stderr or b""


def is_asleep(process: subprocess.Popen[Any]) -> bool:
    """Return whether a process is asleep (state S in proc(5)) or has exited."""
    if process.poll() is not None:
        return True
    state = Path(f"/proc/{process.pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2]
    return state.split()[0] == "S"
