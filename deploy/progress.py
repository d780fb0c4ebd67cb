"""Runs long commands at the same time, and shows their progress.

Standard library only: deploy/setup.sh uses it before any package is installed.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

LINE_INTERVAL_S = 10.0
"""Time between lines if standard error is not a terminal."""
BAR_INTERVAL_S = 1.0
"""Time between updates of the line on a terminal."""
LINES_KEPT = 60
"""Lines of output that are shown for a failed command."""
EVENLY = (0.0, 1.0)
"""`time_shares` of pieces that take equally long."""
CARGO_TIME_SHARES = (0.0, 0.07, 0.14, 0.17, 0.23, 0.29, 0.37, 0.45, 0.55, 0.74, 1.0)
"""The last packages that cargo compiles are the largest: measured with the profile `demo` on two cores."""
CARGO_BAR = {
    "CARGO_TERM_PROGRESS_WHEN": "always",
    "CARGO_TERM_PROGRESS_WIDTH": "160",
    "CARGO_TERM_COLOR": "never",
    "CARGO_TERM_QUIET": "false",
}
"""Environment with which cargo draws its bar into a pipe."""

_BAR = re.compile(r"\[[=> ]*\] (\d+)/(\d+): (.*)")
_WAITS = re.compile(r"Blocking waiting for file lock on (.*)")
_LINE_END = re.compile(rb"[\r\n]+")


@dataclass
class Job:
    """Commands that run one after another.

    `name`: what they make, in the plural ("programs"). `read`: gets each line of output and the job, and sets
    `done`, `total` and `now`. `own_bar`: the commands show their progress on a terminal themselves; with the
    environment `bar` they do so into a pipe. `time_shares`: the share of the whole time that has passed when
    0 %, 10 % ... 100 % of the pieces are done.
    """

    name: str
    commands: Sequence[Sequence[str]]
    read: Callable[[str, Job], None]
    total: int = 0
    time_shares: Sequence[float] = EVENLY
    own_bar: bool = False
    bar: Mapping[str, str] = field(default_factory=dict)
    done: int = 0
    now: str = ""
    ended: bool = False
    output: deque[str] = field(default_factory=lambda: deque(maxlen=LINES_KEPT))

    def state(self, elapsed_s: float) -> str:
        """Return the progress after `elapsed_s` seconds: name, finished pieces, all pieces, minutes left."""
        if not self.total:
            return f"{self.name}: {self.now or 'starting'}"
        at = f" ({self.now})" if self.now else ""
        left = time_left(self.done, self.total, elapsed_s, self.time_shares)
        return f"{self.name}: {self.done} of {self.total}{at}{left}"


class JobError(Exception):
    """A command in a job has failed."""

    def __init__(self, job: Job, command: Sequence[str], status: int) -> None:
        super().__init__(f"{job.name}: `{' '.join(command)}` failed with status {status}")
        self.output = list(job.output)


def time_left(done: int, total: int, elapsed_s: float, time_shares: Sequence[float]) -> str:
    """Return ", about N min left", from the elapsed time and its usual share of the whole, or nothing."""
    if not 0 < done < total:
        return ""
    tenths = done / total * (len(time_shares) - 1)
    before = int(tenths)
    share = time_shares[before] + (tenths - before) * (time_shares[before + 1] - time_shares[before])
    minutes = elapsed_s * (1 - share) / share / 60
    return f", about {minutes:.0f} min left" if minutes >= 1 else ", less than 1 min left"


def read_cargo(line: str, job: Job) -> None:
    """Read cargo's bar, and its message that another cargo holds a lock."""
    if bar := _BAR.search(line):
        job.done, job.total, job.now = int(bar[1]), int(bar[2]), bar[3].strip().split(", ")[0]
    elif waits := _WAITS.search(line):
        job.now = f"waiting for another cargo, which holds the lock on the {waits[1].strip()}"
        say(f"{job.name}: {job.now}")


def counting(piece: str, other: str = r"$^") -> Callable[[str, Job], None]:
    """Return a `read` that counts the lines that match `piece`, and shows the match's group 1.

    Lines that match `other` are not counted, but the match's last group is shown.
    """
    pieces, others = re.compile(piece), re.compile(other)

    def read(line: str, job: Job) -> None:
        if match := pieces.search(line):
            job.done, job.now = min(job.done + 1, job.total), match[1]
        elif match := others.search(line):
            job.now = match[match.lastindex or 0]

    return read


def say(text: str) -> None:
    """Print a line to standard error; on a terminal, in place of the bar."""
    clear = "\r\033[K" if sys.stderr.isatty() else ""
    sys.stderr.write(f"{clear}setup: {text}\n")
    sys.stderr.flush()


def run(jobs: Sequence[Job], interval_s: float = LINE_INTERVAL_S) -> None:
    """Run jobs at the same time, and show their progress on standard error.

    Raises JobError when a command fails; the other jobs are terminated.
    """
    try:
        asyncio.run(_run(jobs, interval_s))
    except* JobError as group:
        raise group.exceptions[0] from None


async def _run(jobs: Sequence[Job], interval_s: float) -> None:
    show = asyncio.create_task(_show(jobs, interval_s))
    try:
        async with asyncio.TaskGroup() as group:
            for job in jobs:
                group.create_task(_commands(job, interval_s))
    finally:
        show.cancel()


async def _commands(job: Job, interval_s: float) -> None:
    """Run a job's commands; JobError if one fails."""
    started = time.monotonic()
    inherits = job.own_bar and sys.stderr.isatty()
    environment = None if inherits else {**os.environ, **job.bar}
    for command in job.commands:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=sys.stderr if inherits else asyncio.subprocess.PIPE,
            stderr=None if inherits else asyncio.subprocess.STDOUT,
            env=environment,
        )
        try:
            if process.stdout is not None:
                await _read(process.stdout, job)
            status = await process.wait()
        except asyncio.CancelledError:
            process.terminate()
            await process.wait()
            raise
        if status:
            raise JobError(job, command, status)
    job.ended = True
    took = time.monotonic() - started
    if took >= interval_s:
        say(f"{job.name}: ready after {took // 60:.0f}:{took % 60:02.0f}")


async def _read(stream: asyncio.StreamReader, job: Job) -> None:
    """Give a job a command's lines; a carriage return ends a line as well."""
    rest = b""
    while part := await stream.read(65536):
        *lines, rest = _LINE_END.split(rest + part)
        for line in (line.decode(errors="replace").rstrip() for line in lines):
            if line and not _BAR.search(line):
                job.output.append(line)
            job.read(line, job)
    if rest:
        job.output.append(rest.decode(errors="replace"))


async def _show(jobs: Sequence[Job], interval_s: float) -> None:
    """Show the jobs that run: a line at each interval, or a terminal's last line."""
    started = time.monotonic()
    terminal = sys.stderr.isatty()
    while True:
        await asyncio.sleep(BAR_INTERVAL_S if terminal else interval_s)
        running = [job for job in jobs if not job.ended]
        if terminal and any(job.own_bar for job in running):
            continue
        elapsed = time.monotonic() - started
        states = "; ".join(job.state(elapsed) for job in running)
        if terminal:
            columns = os.get_terminal_size(sys.stderr.fileno()).columns
            sys.stderr.write(f"\r\033[K{states[: columns - 1]}")
            sys.stderr.flush()
        elif states:
            say(f"{elapsed // 60:.0f}:{elapsed % 60:02.0f}, {states}")
