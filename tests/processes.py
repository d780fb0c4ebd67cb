"""Finds processes of the programs under test, and lets halted ones go on once a signal waits for them."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from lab.site.processes import descendants
from tests.waiting import until


def running(pid: int, program: str) -> list[int]:
    """Return `pid` and its descendants, as far as they run `program`."""
    found = []
    for one in descendants([pid]):
        with suppress(OSError):
            if Path(f"/proc/{one}/exe").readlink().name == program:
                found.append(one)
    return found


def pending(pid: int) -> int:
    """Return the signals of a process that it has not handled yet, as a bit mask (bit 0: signal 1)."""
    return _signals(pid, "ShdPnd")


def halt(pid: int) -> None:
    """Send SIGSTOP to a process, and return when it stands still. ProcessLookupError if it has ended.

    Until then it does what it was doing, and handles a signal that comes later: SIGINT goes before SIGSTOP.
    """
    os.kill(pid, signal.SIGSTOP)
    until(lambda: _stands_still(pid), f"process {pid} to stand still")


def _stands_still(pid: int) -> bool:
    """Return whether all threads of a process are stopped. ProcessLookupError if it has ended."""
    states = set()
    for thread in Path(f"/proc/{pid}/task").glob("*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):
            states.add(thread.read_text(encoding="utf-8").rpartition(")")[2].split()[0])
    if not states or states & {"Z", "X"}:
        raise ProcessLookupError(f"process {pid} has ended")
    return states == {"T"}


def handles(pid: int, number: signal.Signals) -> bool:
    """Return whether a process has a handler for a signal: without one SIGINT and SIGTERM end it at once."""
    with suppress(OSError):
        return _has(number, _signals(pid, "SigCgt"))
    return False


def _signals(pid: int, kind: str) -> int:
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(status.partition(f"{kind}:")[2].split()[0], 16)


def _has(number: signal.Signals, signals: int) -> bool:
    return bool(signals >> (number - 1) & 1)


def go_on_when_interrupted(engines: Sequence[int]) -> None:
    """Let halted engines go on, each once SIGINT is pending for it."""
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
