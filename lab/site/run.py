"""Starts the programs of a site, watches over them, and ends all of them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from firstflight.errors import FirstflightError
from lab.site.plan import Part, Site

READY_S = 180.0
END_S = 10.0
AGAIN_S = 3.0


@dataclass
class Started:
    """A program that runs, with its log; `at`: when it was started (monotonic)."""

    part: Part
    process: subprocess.Popen[bytes]
    log: Path
    from_byte: int
    at: float = field(default_factory=time.monotonic)

    def said(self) -> str:
        """What it has written since it was started."""
        with self.log.open("rb") as file:
            file.seek(self.from_byte)
            return file.read().decode(errors="replace")

    def fault(self) -> FirstflightError:
        """That it has ended, with the end of its log."""
        end = "\n".join(self.said().strip().splitlines()[-8:])
        return FirstflightError(
            f"the site's {self.part.name} ended with status {self.process.returncode}; see {self.log}:\n{end}"
        )


class Programs:
    """The programs of one site; a context manager that ends all it started, in any case."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.started: dict[str, Started] = {}

    def __enter__(self) -> Programs:
        return self

    def __exit__(self, *_: object) -> None:
        self.end_all()

    def start(self, part: Part) -> Started:
        """Start a program on its host, in a session of its own; its log goes on where it was."""
        log = self.site.logs / f"{part.name}.log"
        log.touch()
        from_byte = log.stat().st_size
        argv = [*enter(self.site.lab.folder, part.host), *part.argv] if part.host else list(part.argv)
        with log.open("ab") as output:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **part.env, "FIRSTFLIGHT_SITE": str(self.site.folder)},
                cwd=self.site.folder,
                start_new_session=True,
            )
        started = Started(part, process, log, from_byte)
        self.started[part.name] = started
        return started

    def wait_ready(self, names: list[str], ready_s: float = READY_S) -> None:
        """Wait until each of these has said that it is up; FirstflightError with its log otherwise."""
        for name in names:
            self.started[name].at = time.monotonic()
        waiting = [self.started[name] for name in names if self.started[name].part.ready]
        while waiting:
            for started in list(waiting):
                assert started.part.ready is not None
                if re.search(started.part.ready, started.said()):
                    waiting.remove(started)
                elif started.process.poll() is not None:
                    raise started.fault()
                elif time.monotonic() - started.at > ready_s:
                    raise FirstflightError(
                        f"the site's {started.part.name} was not up after {ready_s:.0f} s; see {started.log}"
                    )
            time.sleep(0.1)

    def look(self, say: Callable[[str], None]) -> None:
        """Start again what has ended."""
        for started in list(self.started.values()):
            if started.process.poll() is None:
                continue
            if time.monotonic() - started.at > AGAIN_S:
                said = started.said().strip().splitlines()
                words = said[-1] if said else ""
                say(f"{started.part.name} ended ({started.process.returncode}), started again: {words}")
                self.start(started.part)

    def end_all(self) -> None:
        """Ask all to end, workers first, for they take leave of the centre; then kill what is left."""
        everything = list(self.started.values())
        for phase in (True, False):
            ending = [started for started in everything if started.part.worker is phase]
            for started in ending:
                signal_all(started.process, signal.SIGTERM)
            deadline = time.monotonic() + END_S
            for started in ending:
                with suppress(subprocess.TimeoutExpired):
                    started.process.wait(max(0.1, deadline - time.monotonic()))
        # Airflow's tasks leave the group of their worker, and the stages below them outlive it for a while.
        for pid in belonging(self.site.folder):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for started in everything:
            started.process.wait()
        self.started.clear()


def enter(lab: Path, host: str) -> list[str]:
    """The command prefix that runs a program on a host of the lab."""
    return [sys.executable, "-P", "-m", "cli", "lab", "exec", "--state", str(lab), host]


def once(argv: list[str], env: Mapping[str, str], log: Path, what: str) -> None:
    """Run a program to its end; FirstflightError with the end of its output if it fails."""
    with log.open("ab") as output:
        done = subprocess.run(
            argv, env={**os.environ, **env}, stdout=output, stderr=subprocess.STDOUT, check=False
        )
    if done.returncode != 0:
        end = "\n".join(log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-8:])
        raise FirstflightError(f"{what} failed with status {done.returncode}; see {log}:\n{end}")


def signal_all(process: subprocess.Popen[bytes], signum: int) -> None:
    """Signal a program and everything in its process group."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signum)


def belonging(folder: Path) -> list[int]:
    """Living processes that were started for the site in `folder`, by a variable that all inherit."""
    mark = f"FIRSTFLIGHT_SITE={folder}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with suppress(OSError):
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
    return found


def descendants(roots: list[int]) -> list[int]:
    """These processes and all below them that live, by /proc."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError, IndexError, ValueError):
                stat = (entry / "stat").read_text(encoding="utf-8", errors="replace")
                fields = stat.rpartition(")")[2].split()
                parents.setdefault(int(fields[1]), []).append(int(entry.name))
    found: list[int] = []
    todo = [pid for pid in roots if Path(f"/proc/{pid}").exists()]
    while todo:
        pid = todo.pop()
        found.append(pid)
        todo += parents.get(pid, [])
    return found
