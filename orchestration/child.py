"""A stage as a child of an Airflow task: its output becomes the task's log, its end can be asked for."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import IO

from firstflight.system import children
from firstflight.system.terminal import visible

# How often the task asks whether it should go on.
ASK_EVERY_S = 5.0
# What a stage may take to end in order: the prober waits for answers, the capture is drained.
GRACE_S = 40.0
EXIT_INTERRUPTED = 130


class Child:
    """One `firstflight` command. If this process dies, even by kill -9, the child ends in order by itself."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        """Start `firstflight ARGUMENTS`, the same installation as ours, with variables besides ours."""
        self.last_words = ""
        self._process = children.start(
            [sys.executable, "-P", "-m", "cli", *arguments],
            own_session=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
        )

    def wait(self, say: Callable[[str], None], may_go_on: Callable[[], bool] = lambda: True) -> int:
        """Wait for the end; `say` gets each line of output. Returns the exit status (negative: a signal).

        As soon as `may_go_on` denies it the child is asked to end in order (130 then).
        """
        stream = self._process.stdout
        assert stream is not None
        reader = threading.Thread(target=self._read, args=(stream, say), daemon=True)
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
        """Ask the child to end in order, and see that it does."""
        children.stop(self._process, GRACE_S)

    def _read(self, stream: IO[bytes], say: Callable[[str], None]) -> None:
        for raw in stream:
            line = visible(raw.decode(errors="replace").rstrip())
            if line:
                self.last_words = line.removeprefix("firstflight: ")
                say(line)
