"""Stages as processes behind a vantage point's command prefix: their argument lists, their start and end."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Coroutine, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from firstflight.errors import UsageError
from firstflight.settings.types import Command
from firstflight.system import children, files

T = TypeVar("T")

# How long a stage may take to end in order after SIGINT: the prober waits for answers, the capture drains.
GRACE_S = 40.0


def this_program() -> list[str]:
    """Argument list that starts the firstflight that runs now, whatever PATH and working directory are."""
    return [sys.executable, "-P", "-m", "cli"]


def expand(command: Command) -> list[str]:
    """A command of the settings; `firstflight` as its program means this one."""
    if command and command[0] == "firstflight":
        return [*this_program(), *command[1:]]
    return list(command)


def stage_argv(
    prefix: Command,
    program: str | None,
    names: Sequence[str],
    run: Path,
    vantage: str | None = None,
    repetition: int | None = None,
    more: Sequence[str] = (),
) -> list[str]:
    """Argument list of `firstflight stage NAMES... --run RUN ...` behind a command prefix, with `more`
    options.

    A vantage point is told the time here, so that it can compare its clock.
    """
    argv = [*expand(prefix), *([program] if program else this_program()), "stage", *names, "--run", str(run)]
    argv.append("--here")
    if vantage is not None:
        argv += ["--vantage", vantage, "--repetition", str(repetition), "--centre-clock", str(time.time_ns())]
    return [*argv, *more]


async def run_to_end(argv: Sequence[str], log: Path) -> int:
    """Run a process to its end, its output appended to `log`. Returns the exit status (negative: a signal).

    When the task is cancelled the process and everything in its session get SIGINT and time to end in order.
    UsageError if the program cannot be started.
    """
    with files.said_in_one_sentence(log):
        log.parent.mkdir(parents=True, exist_ok=True)
        output = log.open("ab")
    with output:
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                # Its own session: Ctrl-C reaches the campaign alone, which passes it on once.
                start_new_session=True,
                preexec_fn=children.die_with_parent,
            )
        except OSError as error:
            raise UsageError(f"cannot start {argv[0]}: {error.strerror or error}") from error
    try:
        return await process.wait()
    except asyncio.CancelledError:
        _signal_session(process.pid, signal.SIGINT)
        try:
            await asyncio.wait_for(process.wait(), GRACE_S)
        except TimeoutError:
            _signal_session(process.pid, signal.SIGKILL)
            await process.wait()
        raise


def last_words(log: Path) -> str:
    """The last line that a process wrote, without the program's name; empty if it wrote none."""
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    spoken = [line.strip() for line in lines if line.strip()]
    return spoken[-1].removeprefix("firstflight: ") if spoken else ""


def _signal_session(pid: int, signum: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(pid, signum)


async def together(tasks: Iterable[Coroutine[None, None, T]]) -> list[T]:
    """Run tasks at the same time, results in order. When one raises, the others are stopped first."""
    running = [asyncio.create_task(task) for task in tasks]
    try:
        return list(await asyncio.gather(*running))
    except BaseException:
        for task in running:
            # Asked once already when we were; twice would cut its orderly end short.
            if not task.cancelling():
                task.cancel()
        # Every child gets to its orderly end before the reason is passed on.
        await asyncio.gather(*running, return_exceptions=True)
        raise
