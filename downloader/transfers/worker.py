"""A download client as a child process in a set's network namespace."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from downloader.clients.contract import ClientAnswer, Request
from downloader.option_sets import OptionSet
from firstflight.errors import FirstflightError, Interrupted, UsageError
from firstflight.system import binaries, children
from firstflight.system.lines import LineTooLong, last_line, next_line

_START_S = 30.0
# After the time-out of the download itself, the time until the worker counts as hanging.
_GRACE_S = 10.0
_END_S = 2.0
_WATCH_EVERY_S = 0.1


def command(client: str, lists: Sequence[str]) -> list[str]:
    """Return a client's command line. `lists`: KIND=VALUE of the lists in force."""
    if client == "quiche":
        return [str(binaries.find("firstflight-quic-download")), *lists]
    return [sys.executable, "-m", f"downloader.clients.{client}", *lists]


class Worker:
    """Context manager for one client. It restarts a client that died; the interrupted download has failed.

    `inside` makes a command run in the set's namespace. `watch` is called ten times a second while a download
    runs, and may raise to stop it.
    """

    def __init__(
        self,
        option_set: OptionSet,
        folder: Path,
        lists: Sequence[str],
        inside: Callable[[Sequence[str]], list[str]],
        watch: Callable[[], None],
    ) -> None:
        self.option_set = option_set
        self.version = ""
        self.starts = 0
        self._argv = inside(command(option_set.client, lists))
        self._keys = folder / f"{option_set.name}.keys"
        self._log = folder / f"{option_set.name}.log"
        self._watch = watch
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def download(self, request: Request) -> ClientAnswer:
        """Return the client's answer, or an answer with the reason for the failure."""
        if self._process is None or self._process.poll() is not None:
            self._stop()
            self._start()
        process, started_at = self._process, time.time_ns()
        assert process is not None and process.stdin is not None
        try:
            process.stdin.write(request.line())
            line = self._line(request.timeout_s + _GRACE_S)
        except BrokenPipeError:
            line = b""
        except BaseException:
            self._kill()
            raise
        if line is not None and line.endswith(b"\n"):
            return ClientAnswer.of(line)
        self._kill()
        failure = "gave no answer in time" if line is None else f"ended with status {process.wait()}"
        return ClientAnswer(
            "failed", detail=f"the client {failure}; see {self._log.name}", started_at=started_at
        )

    def _start(self) -> None:
        self.starts += 1
        environment = dict(os.environ, SSLKEYLOGFILE=str(self._keys))
        with self._log.open("ab") as log:
            self._process = children.start(
                self._argv,
                own_session=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment,
            )
        try:
            line = self._line(_START_S) or b""
            self.version = str(json.loads(line)["ready"])
        except (ValueError, KeyError, TypeError) as error:
            self._kill()
            reason = last_line(self._log) or "it gave no reason"
            raise UsageError(
                f"the download client {self.option_set.client} does not start: {reason}"
            ) from error
        except BaseException:
            self._kill()
            raise

    def _line(self, limit_s: float) -> bytes | None:
        """Return the client's next line, a partial line if it exited, or `None` after the time limit."""
        assert self._process is not None and self._process.stdout is not None
        try:
            return next_line(self._process.stdout, limit_s, watch=self._watch, every_s=_WATCH_EVERY_S)
        except TimeoutError:
            return None
        except LineTooLong as error:
            raise FirstflightError(
                f"the client {self.option_set.client} wrote a line without end: {error}"
            ) from error

    def _stop(self) -> None:
        """Close the client's input and wait until it exits."""
        if self._process is None:
            return
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_S)
        children.stop(self._process, grace_s=_END_S)
        self._process = None

    def _kill(self) -> None:
        if self._process is not None:
            self._process.kill()
        self._stop()


def stopped(reason: str) -> Interrupted:
    """Return the error for downloads that a signal or the run's stop file stopped."""
    return Interrupted(f"stopped by {reason}; finished downloads are kept")
