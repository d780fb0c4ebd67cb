"""Runs `firstflight` commands as child processes: argument list, output, graceful shutdown.

Campaigns wait for them in an event loop (`run_to_end`), Airflow tasks block on them (`Child`). A child runs
in a separate session, so the terminal's Ctrl-C reaches it only once, through this process. If this process
dies, even by kill -9, the child shuts down gracefully. A stage that runs through a command such as ssh stops
when its standard input closes (`orchestration.stage_input`).
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
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, TypeVar

from firstflight.errors import Interrupted, UsageError
from firstflight.layout import StageKey
from firstflight.settings import Vantage
from firstflight.settings.types import Command
from firstflight.system import children, files, lines
from firstflight.system.terminal import visible
from orchestration.stage_input import StageInput

T = TypeVar("T")

# Time for a stage to shut down after SIGINT: its engine waits for answers, for two minutes with the longest
# time-outs that settings may have (scanner/driver/process.py), and the capture drains.
GRACE_S = 180.0
EXIT_INTERRUPTED = Interrupted.exit_status
# Seconds for a command to connect; after that, its stage certainly does not have the input.
CONNECT_S = 5.0
# Interval of the checks whether a child should continue.
ASK_EVERY_S = 5.0


def this_program() -> list[str]:
    """Return the argument list that starts this installation, whatever PATH and working directory are."""
    return [sys.executable, "-P", "-m", "cli"]


def expand(command: Command) -> list[str]:
    """Return a command of the settings; its program `firstflight` means this installation."""
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
    """Return the argument list of `firstflight stage NAMES... --run RUN ...`, with prefix and `more` options.

    With a key it includes the local time, for the vantage point to compare its clock.
    """
    argv = [*expand(prefix), *([program] if program else this_program()), "stage", *names, "--run", str(run)]
    argv.append("--here")
    if key is not None:
        argv += key_options(key)
        argv += ["--centre-clock", str(time.time_ns())]
    return [*argv, *more]


def doctor_argv(vantage: Vantage, run: Path) -> list[str]:
    """Return the argument list of `firstflight doctor` for a vantage point of a run, with its command."""
    program = [vantage.program] if vantage.program else this_program()
    argv = [*expand(vantage.command), *program, "doctor", "--run", str(run)]
    return [*argv, "--vantage", vantage.name, "--here"]


def key_options(key: StageKey) -> list[str]:
    """Return the options of `firstflight stage` that name a key."""
    shard = [] if key.shard.is_whole else ["--shard", str(key.shard)]
    return ["--vantage", key.vantage, "--repetition", str(key.repetition), *shard]


async def run_to_end(argv: Sequence[str], log: Path, *, behind: bool = False) -> int:
    """Run a process until it exits, and append the output to `log`.

    Returns the exit status (negative: a signal). On cancellation the process and all others in its session
    get SIGINT and time to shut down. With `behind`, the process is a command that runs a stage elsewhere: if
    the command forwards its input, the stage is stopped by closing that input instead. UsageError if the
    program cannot be started.
    """
    with files.explain_os_errors(log):
        log.parent.mkdir(parents=True, exist_ok=True)
        output = log.open("ab")
    with output, ExitStack() as stack:
        stage_input = stack.enter_context(StageInput()) if behind else None
        starting = asyncio.ensure_future(
            asyncio.create_subprocess_exec(
                *argv,
                stdin=asyncio.subprocess.DEVNULL if stage_input is None else stage_input.fileno(),
                stdout=output,
                stderr=output,
                start_new_session=True,
                preexec_fn=children.die_with_parent,
            )
        )
        try:
            # Shielded, because asyncio kills a process if its start is cancelled.
            process = await asyncio.shield(starting)
            return await process.wait()
        except OSError as error:
            raise UsageError(f"cannot start {argv[0]}: {error.strerror or error}") from error
        except asyncio.CancelledError:
            await _end(starting, stage_input)
            raise


async def _end(starting: asyncio.Future[asyncio.subprocess.Process], stage_input: StageInput | None) -> None:
    """Stop a process and all others in its session, by closing its input or by SIGINT, once it has started.

    Processes that still run after GRACE_S are killed.
    """
    try:
        process = await asyncio.shield(starting)
    except OSError:
        return  # it did not start
    if stage_input is None or not await _ends_by_input(process, stage_input):
        _signal_session(process.pid, signal.SIGINT)
    try:
        await asyncio.wait_for(process.wait(), GRACE_S)
    except TimeoutError:
        _signal_session(process.pid, signal.SIGKILL)
        await process.wait()


async def _ends_by_input(process: asyncio.subprocess.Process, stage_input: StageInput) -> bool:
    """Close a process's input; return whether its command forwards it.

    The command may still be connecting.
    """
    stage_input.close_input()
    deadline = time.monotonic() + CONNECT_S
    while not stage_input.is_forwarded() and process.returncode is None:
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(0.05)
    return True


def run_in_terminal(argv: Sequence[str], *, behind: bool = False) -> int:
    """Run a process in this session, on this terminal; stop it gracefully if this process is interrupted.

    `behind`: the process is a command that runs a stage elsewhere. Returns the exit status (negative: a
    signal).
    """
    with ExitStack() as stack:
        stage_input = stack.enter_context(StageInput()) if behind else None
        process = children.start(
            argv, stdin=subprocess.DEVNULL if stage_input is None else stage_input.fileno()
        )
        try:
            return process.wait()
        except BaseException:
            # A command such as ssh stops immediately, which closes the input of the remote stage.
            children.stop(process, GRACE_S)
            raise


class Child:
    """Runs a `firstflight` command as a child process and passes the output on line by line."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        """Start `firstflight ARGUMENTS` of this installation, with additional environment variables."""
        self.last_line = ""
        self._process = children.start(
            [*this_program(), *arguments],
            own_session=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
        )

    def wait(self, write: Callable[[str], None], may_continue: Callable[[], bool] = lambda: True) -> int:
        """Wait until the child exits, and call `write` with each line of output. Returns the exit status.

        A negative status is a signal. When `may_continue` returns False the child is stopped gracefully
        (status 130).
        """
        stream = self._process.stdout
        assert stream is not None
        reader = threading.Thread(target=self._read, args=(stream, write), daemon=True)
        reader.start()
        asked_at = time.monotonic()
        while self._process.poll() is None:
            time.sleep(0.1)
            if time.monotonic() - asked_at >= ASK_EVERY_S:
                if not may_continue():
                    self.stop()
                asked_at = time.monotonic()
        reader.join(timeout=5)  # a grandchild may hold the pipe open
        return self._process.returncode

    def interrupt(self) -> None:
        """Send SIGINT to the child without waiting."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)

    def stop(self) -> None:
        """Stop the child gracefully and wait until it exits."""
        children.stop(self._process, GRACE_S)

    def _read(self, stream: IO[bytes], write: Callable[[str], None]) -> None:
        for raw in stream:
            line = visible(raw.decode(errors="replace").rstrip())
            if line:
                self.last_line = line.removeprefix("firstflight: ")
                write(line)


def lines_of(log: Path, prefix: str) -> list[str]:
    """Return the lines of a process's log that begin with `prefix`, without it; empty without a log."""
    try:
        text = log.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return [line.removeprefix(prefix) for line in text.splitlines() if line.startswith(prefix)]


def last_line(log: Path) -> str:
    """Return the last line of a process's log, without the program's name; empty without output."""
    return lines.last_line(log).removeprefix("firstflight: ")


def _signal_session(pid: int, signum: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(pid, signum)


async def run_together(tasks: Iterable[Coroutine[None, None, T]]) -> list[T]:
    """Run tasks concurrently; return their results in order. If one raises, stop the others first."""
    running = [asyncio.create_task(task) for task in tasks]
    try:
        return list(await asyncio.gather(*running))
    except BaseException:
        for task in running:
            # A task that is already cancelling shuts down gracefully; a second cancel would abort that.
            if not task.cancelling():
                task.cancel()
        # Wait for every child to end before raising.
        await asyncio.gather(*running, return_exceptions=True)
        raise
