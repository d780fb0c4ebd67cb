"""Runs an engine as a child process: start, supervision, shutdown."""

from __future__ import annotations

import os
import select
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from firstflight.errors import FirstflightError, Interrupted, OutputError, UsageError
from firstflight.system import children, files
from firstflight.system.lines import last_line
from firstflight.system.noted_signals import noted_signals
from scanner.driver.feed import Feed

# After SIGINT an engine starts no new attempts. It gets this time in addition to the longest attempt in
# flight.
GRACE_S = 20.0
# A check costs a third of a millisecond, and a scan at a low rate lasts for hours.
WATCH_EVERY_S = 0.25
STATE = "engine.json"
"""File in an engine's folder with the progress and current limit, while it runs."""


class EngineTexts(NamedTuple):
    """An engine in messages: its name, and a text about its results after a stop."""

    name: str
    after_stop: str = "finished results are kept, and --resume continues"


class EngineFailed(FirstflightError):
    """The engine failed: the status is not for usage or signals. The last message is the reason.

    The exit status is 3 if the engine's status is 3: it could not read its input or write its records.
    """

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        if status == OutputError.exit_status:
            self.exit_status = status


def limit_of(folder: Path) -> str | None:
    """Return what limits the engine in `folder`; `None` if unknown yet."""
    try:
        limit = files.read_json(folder / STATE)["limit"]
    except (FirstflightError, KeyError, TypeError):
        return None
    return limit if isinstance(limit, str) else None


def run(
    argv: list[str],
    log: Path,
    feed: Feed,
    watch: Callable[[], None],
    engine: EngineTexts,
    *,
    longest_s: float,
) -> None:
    """Run an engine until it exits. Calls `watch` every WATCH_EVERY_S s; `watch` may raise to stop it.

    `longest_s`: the maximum time of a probe or connection in flight, in seconds. If a stopped engine has not
    exited GRACE_S after this time, it is killed. `feed` becomes the standard input. The messages go to `log`.

    Status 1 (rejected lines) is not an error, because the summary counts them. Raise UsageError (status 2:
    nothing was sent), Interrupted (status 130, or a signal to this process: the engine has closed its
    segments), or EngineFailed with the engine's last message.
    """
    with noted_signals() as signalled:

        def check() -> None:
            if signalled():
                raise Interrupted(f"stopped by a signal; {engine.after_stop}")

        def look() -> None:
            check()
            watch()

        status = _supervise(argv, log, feed, look, longest_s + GRACE_S)
        check()
    if status in (0, 1):
        return
    if status == 130:
        raise Interrupted(f"the {engine.name} was stopped by a signal; {engine.after_stop}")
    reason = last_line(log) or f"ended with status {status}"
    if status == 2:
        raise UsageError(f"the {engine.name} refused: {reason}")
    raise EngineFailed(f"the {engine.name} failed: {reason}", status)


def _supervise(argv: list[str], log: Path, feed: Feed, check: Callable[[], None], grace_s: float) -> int:
    """Run an engine until it exits. If `check` raises, stop it gracefully first. Return the exit status."""
    with log.open("ab") as messages:
        # In a separate session. Otherwise the engine would receive a signal to this session in addition to
        # the signal that this process forwards, and a second signal makes it abandon all attempts in flight.
        process = children.start(
            argv, own_session=True, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=messages
        )
    assert process.stdin is not None
    try:
        feed.attach(process.stdin)
        feed.flush()
        with _end_of(process) as end:
            while process.poll() is None:
                check()
                end.poll(WATCH_EVERY_S * 1000)
    except BaseException:
        children.stop(process, grace_s)
        raise
    finally:
        feed.close()
    return process.returncode


@contextmanager
def _end_of(process: subprocess.Popen[bytes]) -> Iterator[select.poll]:
    """Yield a poll object for a process's exit. Popen.wait would check twenty times a second."""
    descriptor = os.pidfd_open(process.pid)
    try:
        end = select.poll()
        end.register(descriptor, select.POLLIN)
        yield end
    finally:
        os.close(descriptor)
