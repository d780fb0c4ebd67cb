"""Progress of a stage, shown on standard error and reported to the campaign by the stage's `progress.json`.

A stage calls `Progress.update(done)`; on a terminal that draws a bar, elsewhere it prints a line every few
seconds. The campaign, whose stages are other processes, reads the files and draws one bar per vantage point.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self

from firstflight.errors import FirstflightError
from firstflight.system import files, terminal

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

FILE_EVERY_S = 0.5
LINE_EVERY_S = 10.0


def print_line(text: str) -> None:
    """Print a line on standard error."""
    terminal.echo(text, err=True)


class Progress:
    """Progress of one stage, as a context manager. `total` None = unknown."""

    def __init__(self, folder: Path, label: str, total: int | None) -> None:
        self._file = folder / "progress.json"
        self._label = label
        self._total = total
        self._bar = Bars() if sys.stderr.isatty() else None
        self._last_file = 0.0
        self._last_line = time.monotonic()
        self._done = 0

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.__enter__()
        self.update(0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._write(time.monotonic())
        if self._bar is not None:
            self._bar.__exit__(kind, error, trace)

    def update(self, done: int) -> None:
        """Report how many units are done so far."""
        self._done = done
        now = time.monotonic()
        if now - self._last_file >= FILE_EVERY_S:
            self._write(now)
        if self._bar is not None:
            self._bar.show(self._label, self._label, done, self._total)
        elif now - self._last_line >= LINE_EVERY_S:
            self._last_line = now
            print_line(f"{self._label}: {done}" + (f" of {self._total}" if self._total is not None else ""))

    def _write(self, now: float) -> None:
        self._last_file = now
        files.write_json(self._file, {"label": self._label, "done": self._done, "total": self._total})


class State(NamedTuple):
    """Progress of a stage at one moment. `total` None = unknown."""

    label: str
    done: int
    total: int | None

    def __str__(self) -> str:
        return f"{self.label} {self.done}" + (f"/{self.total}" if self.total is not None else "")


def read(folder: Path) -> State | None:
    """Read the state of the stage that writes to `folder`; None if it has not written one yet."""
    try:
        value = files.read_json(folder / "progress.json")
        total = None if value["total"] is None else int(value["total"])
        return State(str(value["label"]), int(value["done"]), total)
    except (FirstflightError, KeyError, TypeError, ValueError):
        return None


class Bars:
    """Rich progress bars on a terminal, one per key."""

    def __init__(self) -> None:
        # Imported late: rich takes a tenth of a second, and most stages do not run on a terminal.
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as RichProgress

        self._rich: RichProgress = RichProgress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
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

    def show(self, key: str, label: str, done: int, total: int | None) -> None:
        """Draw or update the bar of `key`."""
        if key not in self._tasks:
            self._tasks[key] = self._rich.add_task(terminal.visible(label), total=total)
        self._rich.update(self._tasks[key], description=terminal.visible(label), completed=done, total=total)

    @property
    def print(self) -> Callable[[str], None]:
        """The function that prints a line above the bars."""
        return lambda text: self._rich.console.print(terminal.lines(text), highlight=False, markup=False)
