"""Shows a running campaign on standard error: bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from firstflight.system import progress
from firstflight.system.speed import State

POLL_EVERY_S = 0.5
LINE_EVERY_S = 30.0


class Console:
    """Follows the `progress.json` of running stages. An asynchronous context manager."""

    def __init__(self) -> None:
        self._bars = progress.Bars() if sys.stderr.isatty() else None
        # Of each folder, when the progress in it was written that an earlier attempt left there.
        self._running: dict[str, dict[Path, int | None]] = {}
        self._task: asyncio.Task[None] | None = None
        self._last_line = time.monotonic()

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
        """Start to follow `who`, whose stages write progress to these folders one after the other."""
        self._running[who] = {folder: progress.written_ns(folder) for folder in folders}

    def end(self, who: str) -> None:
        """Stop to follow `who`."""
        self._look()
        self._running.pop(who, None)

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(POLL_EVERY_S)
            self._look()

    def _look(self) -> None:
        # A line comes twice a minute: until then there is no reason to read the files.
        if self._bars is None and time.monotonic() - self._last_line < LINE_EVERY_S:
            return
        states = {who: self._progress(folders) for who, folders in self._running.items()}
        known = {who: state for who, state in states.items() if state is not None}
        if self._bars is not None:
            for who, state in known.items():
                self._bars.show(who, state)
        elif known:
            self._last_line = time.monotonic()
            progress.print_line("so far: " + "; ".join(map(str, known.values())))

    @staticmethod
    def _progress(folders: dict[Path, int | None]) -> State | None:
        # The last stage that has written progress is the running one.
        for folder, before in reversed(folders.items()):
            if progress.written_ns(folder) == before:
                continue
            state = progress.read(folder)
            if state is not None:
                return state
        return None
