"""Runs an engine once for a stage. Meanwhile it pauses networks with worse answers and shows progress."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from firstflight.run.report import StageReport
from firstflight.run.run import Run
from firstflight.system import files
from firstflight.system.reporting.progress import Progress
from scanner.backoff.controller import Controller
from scanner.driver import process, summaries
from scanner.driver.feed import Feed


@dataclass
class EngineRun:
    """One run of an engine.

    `folder` has its segments, summary and `log`. `label` is its name in messages, `progress_label` in
    progress. `total`: the number of rows, of planned probes with `planned`, else of targets. `asn_of` returns
    the AS of an address. Warnings go to `report`.
    """

    run: Run
    engine: process.EngineTexts
    folder: Path
    log: str
    label: str
    progress_label: str
    total: int
    asn_of: Callable[[str], int | None]
    report: StageReport
    planned: bool = False
    feed: Feed = field(default_factory=Feed)

    def __post_init__(self) -> None:
        with files.explain_os_errors(self.folder):
            (self.folder / "segments").mkdir(parents=True, exist_ok=True)
        self._controller = Controller(
            self.run.settings.backoff, self.folder, self.asn_of, self.feed, self.label
        )

    def drive(self, argv: list[str], watch: Callable[[], None], *, longest_s: float) -> None:
        """Run the engine until it exits. For arguments and errors see `process.run`.

        Stop the engine if the run is stopped.
        """
        limit = partial(process.limit_of, self.folder)
        with Progress(self.folder, self.progress_label, self.total, limit) as progress:

            def update() -> None:
                self._controller.update()
                rows = self._controller.planned_rows if self.planned else self._controller.listed_rows
                progress.update(rows)

            def check() -> None:
                watch()
                self.run.check_not_stopped()
                update()

            summaries.set_aside(self.folder)
            try:
                process.run(argv, self.folder / self.log, self.feed, check, self.engine, longest_s=longest_s)
            finally:
                update()
                self.report.warnings += self._controller.warnings
