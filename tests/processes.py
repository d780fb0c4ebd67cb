"""Finds processes of the programs under test, and continues stopped processes once a signal is pending."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from lab.site.processes import descendants
from tests.waiting import until


def running(pid: int, program: str) -> list[int]:
    """Return the processes that run `program`, among `pid` and its descendants."""
    found = []
    for process in descendants([pid]):
        with suppress(OSError):
            if Path(f"/proc/{process}/exe").readlink().name == program:
                found.append(process)
    return found


def pending(pid: int) -> int:
    """Return a process's pending signals as a bit mask (bit 0: signal 1)."""
    return _signals(pid, "ShdPnd")


def halt(pid: int) -> None:
    """Send SIGSTOP to a process, and wait until it is stopped. ProcessLookupError if it has exited.

    Until it is stopped, the process continues and handles later signals: the kernel delivers SIGINT before
    SIGSTOP.
    """
    os.kill(pid, signal.SIGSTOP)
    until(lambda: _stands_still(pid), f"process {pid} to stop")


def _stands_still(pid: int) -> bool:
    """Return whether all threads in a process are stopped. ProcessLookupError if it has exited."""
    states = set()
    for thread in Path(f"/proc/{pid}/task").glob("*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):
            states.add(thread.read_text(encoding="utf-8").rpartition(")")[2].split()[0])
    if not states or states & {"Z", "X"}:
        raise ProcessLookupError(f"process {pid} has ended")
    return states == {"T"}


def handles(pid: int, number: signal.Signals) -> bool:
    """Return whether a process has a handler for a signal. Without one, SIGINT and SIGTERM kill it."""
    with suppress(OSError):
        return _has(number, _signals(pid, "SigCgt"))
    return False


def _signals(pid: int, kind: str) -> int:
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(status.partition(f"{kind}:")[2].split()[0], 16)


def _has(number: signal.Signals, signals: int) -> bool:
    return bool(signals >> (number - 1) & 1)


def go_on_when_interrupted(engines: Sequence[int]) -> None:
    """Continue each stopped engine as soon as SIGINT is pending for it."""
    waiting = set(engines)

    def all_go_on() -> bool:
        for engine in filter(_is_interrupted, list(waiting)):
            os.kill(engine, signal.SIGCONT)
            waiting.remove(engine)
        return not waiting

    until(all_go_on, "a signal to each engine")


def _is_interrupted(pid: int) -> bool:
    """Return whether SIGINT is pending for a process."""
    return _has(signal.SIGINT, pending(pid))
