"""A program's cost: CPU time, wall time and memory, as the kernel counts them for the whole process."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Used:
    """A process's cost.

    `peak_mb`: peak resident memory, millions of bytes; `sleeps`: voluntary context switches of all threads.
    """

    user_s: float
    cpu_s: float
    wall_s: float
    peak_mb: float
    sleeps: int


def run(
    argv: Sequence[str | Path],
    *,
    source: int | None = None,
    out: Path | None = None,
    quiet: bool = False,
    env: Mapping[str, str] | None = None,
    watch: Callable[[int], None] | None = None,
) -> Used:
    """Run a command, which must succeed; `quiet` shows the standard error only if it fails.

    Calls `watch` with the process id repeatedly until the command exits; `watch` has to sleep itself.

    The kernel also charges the program the memory of the process that starts it, so keep this process small.
    """
    command = [str(part) for part in argv]
    began = time.monotonic()
    with (out or Path(os.devnull)).open("wb") as sink, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            command, stdin=source, stdout=sink, stderr=errors if quiet else None, env=env
        )
        ended = 0
        while watch is not None and not ended:
            watch(process.pid)
            ended, status, usage = os.wait4(process.pid, os.WNOHANG)
        if not ended:
            _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            errors.seek(0)
            last = errors.read().strip().rpartition("\n")[2]
            raise SystemExit(f"bench: {' '.join(command)} ended with status {process.returncode}: {last}")
    cpu_s = usage.ru_utime + usage.ru_stime
    wall_s, peak_mb = time.monotonic() - began, usage.ru_maxrss * 1024 / 1e6
    return Used(usage.ru_utime, cpu_s, wall_s, peak_mb, usage.ru_nvcsw)


@contextmanager
def listening(arguments: Sequence[str | Path], environment: Mapping[str, str]) -> Iterator[tuple[int, str]]:
    """Run a server that prints ` at ADDRESS` on standard error; yield its process id and the address.

    Stops the server with SIGTERM. Raises SystemExit if it does not start.
    """
    server = subprocess.Popen(arguments, env=environment, stderr=subprocess.PIPE, text=True)
    try:
        assert server.stderr is not None
        ready = server.stderr.readline()
        if " at " not in ready:
            raise SystemExit(f"bench: the server did not start: {ready.strip()}")
        yield server.pid, ready.rpartition(" at ")[2].strip()
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait()


def cpu_s(pid: int) -> float:
    """Return the CPU time (user and system) for a running process in seconds."""
    return ticks(pid)[0] / TICKS_PER_S


def cpu_ns(pid: int) -> int:
    """Return the CPU time for a running process's present threads in nanoseconds (Linux: schedstat)."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)


def ticks(pid: int) -> tuple[int, int]:
    """Return the clock ticks (user and system) for a running process, and of finished children.

    Raises OSError or IndexError if the process has just exited.
    """
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12]), int(fields[13]) + int(fields[14])


def peak_mb(pid: int) -> float:
    """Return a running process's peak resident memory."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024 / 1e6


def resident_mb(pid: int) -> float:
    """Return a running process's resident memory. OSError or IndexError: it has just exited."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) * 1024 / 1e6


def load() -> str:
    """Return the number of cores and the load, for display."""
    return f"{os.cpu_count()} cores with a load of {os.getloadavg()[0]:.1f}"


def run_first() -> None:
    """Run this process, and all that it starts, before the machine's other processes (SCHED_FIFO).

    SystemExit if this user may not do so.
    """
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except PermissionError as error:
        raise SystemExit("this user may not use SCHED_FIFO: leave --realtime out, or run as root") from error
