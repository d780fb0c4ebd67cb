"""Which processes are a site's: found again when their parents are gone, or the site itself was killed."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from lab.state import boot_id, start_ticks

# What a program of a site and all below it are known by: nobody else sets it.
MARK = "FIRSTFLIGHT_STARTED_BY_SITE"

Identity = tuple[int, int]
"""A process number and when the process began (clock ticks since boot): never again the same."""


def identities(pids: Iterable[int]) -> list[Identity]:
    """Of those that live."""
    return [(pid, ticks) for pid in pids if (ticks := start_ticks(pid)) is not None]


def living(processes: Iterable[Identity]) -> list[int]:
    """Those that still live, and all below them."""
    return descendants([pid for pid, ticks in processes if start_ticks(pid) == ticks])


def record(folder: Path, pids: Iterable[int]) -> None:
    """Write down which programs were started for the site in `folder`, for a site after it."""
    part = folder / "programs.part"
    part.write_text(json.dumps({"boot": boot_id(), "processes": identities(pids)}), encoding="utf-8")
    part.replace(record_of(folder))


def record_of(folder: Path) -> Path:
    """The file that says which processes were started for the site in `folder`."""
    return folder / "programs.json"


def left_over(folder: Path) -> list[int]:
    """What lives of a site in `folder`, whoever started it: by its programs' sessions, or by the mark."""
    sessions: dict[int, int] = {}
    with suppress(FileNotFoundError):
        recorded = json.loads(record_of(folder).read_text(encoding="utf-8"))
        if recorded["boot"] == boot_id():
            sessions = dict(recorded["processes"])
    # Programs that show a title (Airflow, PostgreSQL) have nothing of the mark left, stages have.
    mark = f"{MARK}={folder}".encode()
    roots, marked = [], []
    for pid in _everything():
        with suppress(OSError):
            # No other session gets a session's number while somebody is in it.
            began = sessions.get(os.getsid(pid))
            if began is not None and (start_ticks(pid) or 0) >= began:
                roots.append(pid)
        with suppress(OSError):
            if pid != os.getpid() and mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                marked.append(pid)
    return sorted({*descendants(roots), *marked})


def kill(pids: Iterable[int]) -> None:
    """kill -9."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def descendants(roots: list[int]) -> list[int]:
    """These processes and all below them that live, by /proc."""
    parents: dict[int, list[int]] = {}
    for pid in _everything():
        with suppress(OSError, IndexError, ValueError):
            stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
            fields = stat.rpartition(")")[2].split()
            parents.setdefault(int(fields[1]), []).append(pid)
    found: list[int] = []
    todo = [pid for pid in roots if Path(f"/proc/{pid}").exists()]
    while todo:
        pid = todo.pop()
        found.append(pid)
        todo += parents.get(pid, [])
    return found


def _everything() -> list[int]:
    """Every process that this one can see."""
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
