"""Runs `firstflight` commands as child processes: argument list, output, orderly end.

Campaigns wait for them in an event loop (`run_to_end`), Airflow tasks and the command line in a thread of
their own (`Child`). A child has a session of its own, so the terminal's Ctrl-C reaches it only through us,
once; if this process dies, even by kill -9, the child ends in order by itself.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, TypeVar

from firstflight.errors import Interrupted, UsageError
from firstflight.layout import StageKey
from firstflight.settings.types import Command
from firstflight.system import children, files
from firstflight.system.terminal import visible

T = TypeVar("T")

# What a stage may take to end in order after SIGINT: the prober waits for answers, the capture drains.
GRACE_S = 40.0
EXIT_INTERRUPTED = Interrupted.exit_status
# How often a child's owner is asked whether it should go on.
ASK_EVERY_S = 5.0


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
    key: StageKey | None = None,
    more: Sequence[str] = (),
) -> list[str]:
    """Argument list of `firstflight stage NAMES... --run RUN ...` behind a command prefix, with `more`
    options.

    With a key it carries the time here, with which the vantage point compares its clock.
    """
    argv = [*expand(prefix), *([program] if program else this_program()), "stage", *names, "--run", str(run)]
    argv.append("--here")
    if key is not None:
        argv += ["--vantage", key.vantage, "--repetition", str(key.repetition)]
        argv += ["--centre-clock", str(time.time_ns())]
    return [*argv, *more]


async def run_to_end(argv: Sequence[str], log: Path) -> int:
    """Run a process to its end, its output appended to `log`. Returns the exit status (negative: a signal).

    When the task is cancelled the process and everything in its session get SIGINT and time to end in order.
    UsageError if the program cannot be started.
    """
    with files.explain_os_errors(log):
        log.parent.mkdir(parents=True, exist_ok=True)
        output = log.open("ab")
    with output:
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
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


def run_in_terminal(argv: Sequence[str]) -> int:
    """Run a process on the terminal of this one, in its session; it is ended in order if this one is.

    Returns the exit status (negative: a signal).
    """
    process = children.start(argv)
    try:
        return process.wait()
    except BaseException:
        children.stop(process, GRACE_S)
        raise


class Child:
    """One `firstflight` command whose output goes, line by line, to whoever waits for it."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        """Start `firstflight ARGUMENTS`, the same installation as ours, with variables besides ours."""
        self.last_line = ""
        self._process = children.start(
            [*this_program(), *arguments],
            own_session=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
        )

    def wait(self, write: Callable[[str], None], may_go_on: Callable[[], bool] = lambda: True) -> int:
        """Wait for the end; `write` gets each line of output. Returns the exit status (negative: a signal).

        As soon as `may_go_on` denies it the child is asked to end in order (130 then).
        """
        stream = self._process.stdout
        assert stream is not None
        reader = threading.Thread(target=self._read, args=(stream, write), daemon=True)
        reader.start()
        asked_at = time.monotonic()
        while self._process.poll() is None:
            time.sleep(0.1)
            if time.monotonic() - asked_at >= ASK_EVERY_S:
                if not may_go_on():
                    self.stop()
                asked_at = time.monotonic()
        reader.join(timeout=5)  # a grandchild may hold the pipe open
        return self._process.returncode

    def interrupt(self) -> None:
        """Ask the child to end in order, and do not wait for it."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)

    def stop(self) -> None:
        """Ask the child to end in order, and wait until it does."""
        children.stop(self._process, GRACE_S)

    def _read(self, stream: IO[bytes], write: Callable[[str], None]) -> None:
        for raw in stream:
            line = visible(raw.decode(errors="replace").rstrip())
            if line:
                self.last_line = line.removeprefix("firstflight: ")
                write(line)


def last_line(log: Path) -> str:
    """The last line that a process wrote to its log, without the program's name; empty if it wrote none."""
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    written = [line.strip() for line in lines if line.strip()]
    return written[-1].removeprefix("firstflight: ") if written else ""


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
            # A task that is already cancelling ends in order; a second cancel would cut that short.
            if not task.cancelling():
                task.cancel()
        # Every child comes to its orderly end before the reason is passed on.
        await asyncio.gather(*running, return_exceptions=True)
        raise
