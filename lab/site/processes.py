"""Finds a site's processes, even if their parents have exited or the site was killed."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from lab.state import boot_id, start_ticks

# Environment variable that marks a site's programs and their descendants.
MARK = "FIRSTFLIGHT_STARTED_BY_SITE"

Identity = tuple[int, int]
"""A process id and the start time of the process (clock ticks since boot), unique together."""


def identities(pids: Iterable[int]) -> list[Identity]:
    """Return the identities of the processes that are alive."""
    return [(pid, ticks) for pid in pids if (ticks := start_ticks(pid)) is not None]


def alive(processes: Iterable[Identity]) -> list[int]:
    """Return the processes that are still alive, and their descendants."""
    return descendants([pid for pid, ticks in processes if start_ticks(pid) == ticks])


def record(folder: Path, pids: Iterable[int]) -> None:
    """Record the programs started for the site in `folder`, for a later site to find."""
    part = folder / "programs.part"
    part.write_text(json.dumps({"boot": boot_id(), "processes": identities(pids)}), encoding="utf-8")
    part.replace(record_of(folder))


def record_of(folder: Path) -> Path:
    """Return the file that records the programs started for the site in `folder`."""
    return folder / "programs.json"


def left_over(folder: Path) -> list[int]:
    """Return live processes of any site in `folder`. The program's session or the mark identifies them."""
    sessions: dict[int, int] = {}
    with suppress(FileNotFoundError):
        recorded = json.loads(record_of(folder).read_text(encoding="utf-8"))
        if recorded["boot"] == boot_id():
            sessions = dict(recorded["processes"])
    # Programs that set a process title (Airflow, PostgreSQL) overwrite the mark; stages keep it.
    mark = f"{MARK}={folder}".encode()
    roots, marked = [], []
    for pid in _all_pids():
        with suppress(OSError):
            # A session id is not reused while a process is in the session.
            started = sessions.get(os.getsid(pid))
            if started is not None and (start_ticks(pid) or 0) >= started:
                roots.append(pid)
        with suppress(OSError):
            if pid != os.getpid() and mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                marked.append(pid)
    return sorted({*descendants(roots), *marked})


def kill(pids: Iterable[int]) -> None:
    """Send SIGKILL to each process."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def descendants(roots: list[int]) -> list[int]:
    """Return the live processes of these and their descendants, from /proc."""
    parents: dict[int, list[int]] = {}
    for pid in _all_pids():
        with suppress(OSError, IndexError, ValueError):
            stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
            fields = stat.rpartition(")")[2].split()
            parents.setdefault(int(fields[1]), []).append(pid)
    found: list[int] = []
    pending = [pid for pid in roots if Path(f"/proc/{pid}").exists()]
    while pending:
        pid = pending.pop()
        found.append(pid)
        pending += parents.get(pid, [])
    return found


def _all_pids() -> list[int]:
    """Return the ids of all visible processes."""
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
