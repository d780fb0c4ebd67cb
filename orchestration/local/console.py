"""Shows a running campaign on standard error: bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from firstflight.system.reporting import progress
from firstflight.system.reporting.speed import ProgressState

POLL_EVERY_S = 0.5
LINE_EVERY_S, LATER_LINE_EVERY_S = 10.0, 30.0
LATER_S = 600.0
"""A user watches the first minutes; a run of several days must not fill the log."""


class Console:
    """Follows the `progress.json` of running stages. An asynchronous context manager."""

    def __init__(self) -> None:
        self._bars = progress.Bars() if sys.stderr.isatty() else None
        # For each folder, the time of the progress that an earlier attempt wrote there.
        self._running: dict[str, dict[Path, int | None]] = {}
        self._task: asyncio.Task[None] | None = None
        self._began = self._last_line = time.monotonic()

    async def __aenter__(self) -> Self:
        if self._bars is not None:
            self._bars.__enter__()
        self._task = asyncio.create_task(self._follow())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._task is not None
        self._task.cancel()
        if self._bars is not None:
            self._look()
            self._bars.__exit__(kind, error, trace)

    def print_line(self, text: str) -> None:
        """Print a line, above any bars."""
        if self._bars is not None:
            self._bars.print(text)
        else:
            progress.print_line(text)

    def begin(self, who: str, folders: list[Path]) -> None:
        """Start following `who`: its stages write progress to these folders, one after the other."""
        self._running[who] = {folder: progress.written_ns(folder) for folder in folders}

    def end(self, who: str) -> None:
        """Stop following `who`."""
        self._look()
        self._running.pop(who, None)

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(POLL_EVERY_S)
            self._look()

    def _look(self) -> None:
        now = time.monotonic()
        line_every_s = LINE_EVERY_S if now - self._began < LATER_S else LATER_LINE_EVERY_S
        # Until the next line there is no reason to read the files.
        if self._bars is None and now - self._last_line < line_every_s:
            return
        states = {who: self._progress(folders) for who, folders in self._running.items()}
        known = {who: state for who, state in states.items() if state is not None}
        if self._bars is not None:
            for who, state in known.items():
                self._bars.show(who, state)
        elif self._running:
            self._last_line = now
            shown = (str(known.get(who) or f"{who} is starting") for who in self._running)
            progress.print_line("so far: " + "; ".join(shown))

    @staticmethod
    def _progress(folders: dict[Path, int | None]) -> ProgressState | None:
        # The last stage that has written progress is the running one.
        for folder, before in reversed(folders.items()):
            if progress.written_ns(folder) == before:
                continue
            state = progress.read(folder)
            if state is not None:
                return state
        return None
