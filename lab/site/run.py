"""Starts, monitors and stops a site's programs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import requests

from firstflight.errors import FirstflightError
from lab.site.plan import Level, SiteFolder, SiteProgram
from lab.site.processes import MARK, alive, descendants, identities, kill, left_over, record

READY_S = 180.0
ANSWER_S = 120.0
END_S = {Level.WORK: 10.0, Level.CENTRE: 10.0, Level.BASE: 60.0}
"""Time for a level to stop cleanly. A killed database must recover at its next start."""
GONE_S = 60.0
AGAIN_S = 5.0


@dataclass
class Started:
    """A started program with its log; `at`: start time (monotonic)."""

    part: SiteProgram
    process: subprocess.Popen[bytes]
    log: Path
    from_byte: int
    answered: bool = False
    ended: float | None = None  # when the exit was noticed (monotonic)
    at: float = field(default_factory=time.monotonic)

    def output(self) -> str:
        """Return its output since the start."""
        with self.log.open("rb") as file:
            file.seek(self.from_byte)
            return file.read().decode(errors="replace")

    def exit_reason(self) -> str:
        """Return the reason for the exit, for messages."""
        status = self.process.returncode
        if status < 0:
            return f"was killed by signal {-status}"
        lines = self.output().strip().splitlines()
        return f"ended with status {status}: {lines[-1] if lines else 'no output'}"

    def exit_error(self) -> FirstflightError:
        """Return an error that reports the exit, with the last log lines."""
        end = "\n".join(self.output().strip().splitlines()[-8:])
        return FirstflightError(
            f"the site's {self.part.name} ended with status {self.process.returncode}; see {self.log}:\n{end}"
        )


class Programs:
    """A site's programs; a context manager that always stops all programs it started."""

    def __init__(self, site: SiteFolder) -> None:
        self.site = site
        self.started: dict[str, Started] = {}

    def __enter__(self) -> Programs:
        return self

    def __exit__(self, *_: object) -> None:
        self.end_all()

    def start(self, part: SiteProgram) -> Started:
        """Start a program on its host in a separate session, and append the output to the log."""
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
                env={**os.environ, **part.env, MARK: str(self.site.folder)},
                cwd=self.site.folder,
                start_new_session=True,
            )
        started = Started(part, process, log, from_byte)
        self.started[part.name] = started
        record(self.site.folder, [program.process.pid for program in self.started.values()])
        return started

    def wait_ready(self, names: list[str], ready_s: float = READY_S) -> None:
        """Wait until these programs are up. If one fails, raise FirstflightError with the last log lines."""
        for name in names:
            self.started[name].at = time.monotonic()
        pending = [self.started[name] for name in names if self.started[name].part.ready]
        while pending:
            for started in list(pending):
                if self.is_up(started):
                    pending.remove(started)
                elif started.process.poll() is not None:
                    raise started.exit_error()
                elif time.monotonic() - started.at > ready_s:
                    raise FirstflightError(
                        f"the site's {started.part.name} was not up after {ready_s:.0f} s; see {started.log}"
                    )
            time.sleep(0.1)

    def is_up(self, started: Started) -> bool:
        """Return whether it runs, has logged that it is ready, and has answered its first request."""
        part = started.part
        if started.process.poll() is not None:
            return False
        if part.ready is not None and not re.search(part.ready, started.output()):
            return False
        if part.question is not None and not started.answered:
            try:
                requests.get(self.page + part.question, timeout=ANSWER_S).raise_for_status()
            except requests.RequestException:
                return False
            started.answered = True
        return True

    @property
    def page(self) -> str:
        """The URL of the page on the machine's loopback."""
        port = re.findall(r"READY (\d+)", self.started["page"].output())[-1]
        return f"http://127.0.0.1:{port}"

    def restart_ended(self, write: Callable[[str], None]) -> None:
        """Restart programs that have exited, when all programs of lower levels are up."""
        for started in sorted(self.started.values(), key=lambda started: started.part.level):
            status = started.process.poll()
            if status is None:
                continue
            if started.ended is None:
                started.ended = time.monotonic()
            # A program that exits by itself is restarted after a delay. For example, the centre refuses a
            # worker while its predecessor does not count as dead.
            if status >= 0 and time.monotonic() - started.ended < AGAIN_S:
                continue
            lower = [program for program in self.started.values() if program.part.level < started.part.level]
            if all(self.is_up(program) for program in lower):
                write(f"{started.part.name} {started.exit_reason()}; it is started again")
                self.start(started.part)

    def end_all(self) -> None:
        """Stop all programs, workers first, because they sign off at the centre; then kill the rest."""
        programs = list(self.started.values())
        # Airflow's tasks leave the process group of their worker, and their stages outlive it for a while.
        tree = identities(descendants([started.process.pid for started in programs]))
        for level in sorted(Level, reverse=True):
            level_programs = [started for started in programs if started.part.level is level]
            for started in level_programs:
                signal_all(started.process, started.part.end)
            deadline = time.monotonic() + END_S[level]
            for started in level_programs:
                with suppress(subprocess.TimeoutExpired):
                    started.process.wait(max(0.1, deadline - time.monotonic()))
        survivors = {*alive(tree), *left_over(self.site.folder)}
        killed = identities(survivors)
        kill(survivors)
        for started in programs:
            started.process.wait()
        self.started.clear()
        # Includes descendants: on a busy machine, a killed process takes time to exit.
        deadline = time.monotonic() + GONE_S
        while alive(killed) and time.monotonic() < deadline:
            time.sleep(0.05)


def enter(lab: Path, host: str) -> list[str]:
    """Return the command prefix that runs a program on a host of the lab."""
    return [sys.executable, "-P", "-m", "cli", "lab", "exec", "--state", str(lab), host]


def run_to_end(argv: list[str], env: Mapping[str, str], log: Path, title: str) -> None:
    """Run a program and wait; FirstflightError with the last output if it fails."""
    with log.open("ab") as output:
        done = subprocess.run(
            argv, env={**os.environ, **env}, stdout=output, stderr=subprocess.STDOUT, check=False
        )
    if done.returncode != 0:
        end = "\n".join(log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-8:])
        raise FirstflightError(f"{title} failed with status {done.returncode}; see {log}:\n{end}")


def signal_all(process: subprocess.Popen[bytes], signum: int) -> None:
    """Signal a program and everything in the process group."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signum)
