"""A stage's progress: shown on standard error, and reported to the campaign in the stage's `progress.json`.

A stage calls `Progress.update(done)`. On a terminal this draws a bar; elsewhere it prints a line every few
seconds. The campaign runs its stages as other processes. It reads their files and draws one bar per vantage
point.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from firstflight.errors import FirstflightError
from firstflight.system import files, terminal
from firstflight.system.reporting.speed import ProgressState, Speed

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

FILE_EVERY_S = 1.0
LINE_EVERY_S = 10.0


def print_line(text: str) -> None:
    """Print a line on standard error."""
    terminal.echo(text, err=True)


class Progress:
    """Context manager for a stage's progress.

    `total` `None`: unknown. `limit` returns what limits the speed; it is called whenever progress is written.
    """

    def __init__(
        self,
        folder: Path,
        label: str,
        total: int | None,
        limit: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._file = folder / "progress.json"
        self._limit = limit
        self._state = ProgressState(label, 0, total)
        self._speed = Speed()
        self._bar = Bars() if sys.stderr.isatty() else None
        self._last_file = 0.0
        self._last_line = time.monotonic()

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.__enter__()
        self._show(time.monotonic())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._write(time.monotonic())
        if self._bar is not None:
            self._bar.__exit__(kind, error, trace)

    def update(self, done: int) -> None:
        """Report the number of completed units."""
        now = time.monotonic()
        self._speed.note(now, done)
        self._state = self._state._replace(done=done, per_s=self._speed.per_s())
        self._show(now)

    def _show(self, now: float) -> None:
        if now - self._last_file >= FILE_EVERY_S:
            self._write(now)
        if self._bar is not None:
            self._bar.show(self._state.label, self._state)
        elif now - self._last_line >= LINE_EVERY_S:
            self._last_line = now
            print_line(str(self._state))

    def _write(self, now: float) -> None:
        self._last_file = now
        self._state = self._state._replace(limit=self._limit())
        files.write_json(self._file, self._state._asdict(), lasting=False)


def read(folder: Path) -> ProgressState | None:
    """Read the state of the stage that writes to `folder`; `None` if it has not written one yet."""
    try:
        value = files.read_json(folder / "progress.json")
        total = None if value["total"] is None else int(value["total"])
        per_s = None if value["per_s"] is None else float(value["per_s"])
        limit = None if value["limit"] is None else str(value["limit"])
        return ProgressState(str(value["label"]), int(value["done"]), total, per_s, limit)
    except (FirstflightError, KeyError, TypeError, ValueError):
        return None


def written_ns(folder: Path) -> int | None:
    """Return when the progress in `folder` was written (the disk's clock); `None` without progress."""
    try:
        return (folder / "progress.json").stat().st_mtime_ns
    except OSError:
        return None


class Bars:
    """Rich progress bars on a terminal, one per key."""

    def __init__(self) -> None:
        # Imported late: rich takes a tenth of a second to import, and most stages do not run on a terminal.
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as RichProgress

        self._rich: RichProgress = RichProgress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[pace]}", markup=False),
            console=Console(stderr=True),
        )
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Self:
        self._rich.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._rich.stop()

    def show(self, key: str, state: ProgressState) -> None:
        """Draw or update the bar of `key`."""
        label, pace = terminal.visible(state.label), terminal.visible(state.pace)
        if key not in self._tasks:
            self._tasks[key] = self._rich.add_task(label, total=state.total, pace=pace)
        task = self._tasks[key]
        self._rich.update(task, description=label, completed=state.done, total=state.total, pace=pace)

    @property
    def print(self) -> Callable[[str], None]:
        """The function that prints a line above the bars."""
        return lambda text: self._rich.console.print(terminal.lines(text), highlight=False, markup=False)
