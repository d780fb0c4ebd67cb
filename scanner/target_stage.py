"""The steps of a stage that contacts a list of targets and writes a row for each.

A kill at any moment loses no results. The next start contacts only targets without a result. A stopped stage
writes its existing rows, except if it is stopped while it waits for an earlier engine. The stage removes its
results when its report marks it as done, because the record file then contains them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import pyarrow as pa

from firstflight.as_map import Mapper
from firstflight.errors import Interrupted
from firstflight.layout import StageKey
from firstflight.run.provenance import ruleset_hash
from firstflight.run.report import StageReport
from firstflight.run.run import Run
from scanner.driver import choose, engine_pause, leftovers, process, rules
from scanner.driver.feed import Feed
from scanner.driver.segments import closed_segments, read_segment
from scanner.engine_run import EngineRun
from scanner.records import finished


class TargetStage(ABC):
    """A stage at one key. Subclasses select its targets, contact them and write its record files."""

    name: ClassVar[str]
    """The name of the stage and the folder."""
    done: ClassVar[str]
    """The verb for targets with a result, in messages."""
    cdn_by_answer: ClassVar[bool] = False
    """Whether its rows have a CDN identified by the answer (`rules.rule_files`)."""

    def __init__(self, run: Run, key: StageKey) -> None:
        self.run = run
        self.key = key
        self.folder = run.layout.stage(self.name, key)

    @cached_property
    def mapper(self) -> Mapper:
        """Looks up AS and CDN of addresses in the run's AS data."""
        return Mapper(self.run.layout.as_data)

    @property
    @abstractmethod
    def without_targets(self) -> str:
        """The warning if the list is empty."""

    @property
    def port(self) -> int:
        """The port of the targets."""
        return self.run.settings.probe.port

    @property
    def progress_label(self) -> str:
        """The stage's name in progress."""
        return f"{self.key.vantage} {self.name} {self.key.repetition}" + self.key.of_shard(" shard ")

    def execute(self) -> None:
        """Contact each target without a result, then write the record files.

        Raise FirstflightError; Interrupted after a stop.
        """
        with self.run.stage(self.name, self.key) as report:
            report.warnings += self.settle()
            rules.check_lists(self.run)
            plan = self.choose()
            report.rows_in = plan.num_rows
            if (warning := choose.without_scan(self.run, self.key)) is not None:
                report.warnings.append(warning)
            if plan.num_rows == 0:
                report.warnings.append(self.without_targets)
            targets = self.folder / "targets.csv"
            has_results = self.has_results()
            choose.write_targets(
                plan, self.port, targets, self.mapper.asn, probed_already=has_results, done=self.done
            )
            in_force = rules.rule_files(self.run, cdn_by_answer=self.cdn_by_answer)
            rules.copy_into_run(self.run, in_force)
            stopped: Interrupted | None = None
            try:
                self.contact(plan, report)
            except Interrupted as error:
                stopped = error
            self.write(plan, ruleset_hash(in_force), report, stopped is not None)
            if stopped is not None:
                raise stopped
        # Only after the report marks the stage as done. Otherwise the next start would contact all targets
        # again.
        self.remove_results(report.rows_out)

    @abstractmethod
    def settle(self) -> list[str]:
        """Clean up leftovers of an earlier start. Return warnings."""

    @abstractmethod
    def choose(self) -> pa.Table:
        """Return the targets, with the columns of `choose.PLAN`."""

    @abstractmethod
    def has_results(self) -> bool:
        """Return whether an earlier start has left results. They refer to targets by number."""

    @abstractmethod
    def contact(self, plan: pa.Table, report: StageReport) -> None:
        """Contact each target without a result. Raise Interrupted after a stop."""

    @abstractmethod
    def write(self, plan: pa.Table, ruleset: str, report: StageReport, stopped: bool) -> None:
        """Write the record files and the report's counts. `stopped`: some targets have no result."""

    @abstractmethod
    def remove_results(self, rows: int | None) -> None:
        """Remove the results, if the record file has `rows` rows. Otherwise raise FirstflightError."""


class EngineStage(TargetStage):
    """A stage that runs one engine over its list. The results are the engine's closed segments."""

    engine: ClassVar[process.EngineTexts]

    @property
    @abstractmethod
    def log(self) -> str:
        """The name of the engine's log in the stage's folder."""

    @property
    @abstractmethod
    def out(self) -> Path:
        """The record file with a row per target."""

    @property
    @abstractmethod
    def longest_s(self) -> float:
        """The maximum time of an attempt in flight, in seconds."""

    @abstractmethod
    def arguments(self, report: StageReport, stack: ExitStack) -> list[str]:
        """Return the engine's command line. Contexts entered on the stack last while the engine runs."""

    def accompany(self, _feed: Feed, _targets: int, _stack: ExitStack) -> Callable[[], None]:
        """Start companions of the engine, such as a capture. Return their periodic work."""
        return lambda: None

    def rows_in(self, segment: Path) -> int:
        """Return the number of targets with rows in a closed segment."""
        return int(read_segment(segment).num_rows)

    @property
    def segments(self) -> Path:
        """The folder of the engine's segments."""
        return self.folder / "segments"

    def settle(self) -> list[str]:
        """Wait for an engine that still runs here, and set aside files that a power cut truncated."""
        return leftovers.settle(self.folder, self.run.check_not_stopped)

    def has_results(self) -> bool:
        """Return whether there is a closed segment."""
        return bool(closed_segments(self.segments))

    def contact(self, plan: pa.Table, report: StageReport) -> None:
        """Run the engine until each target has a row in a closed segment."""
        done = sum(self.rows_in(segment) for segment in closed_segments(self.segments))
        # If the engine was killed before it wrote its summary, it has nothing left to send and writes the
        # summary now.
        if plan.num_rows <= done and (plan.num_rows == 0 or (self.folder / "summary.json").is_file()):
            return
        engine_pause.wait(self.run, engine_pause.pause_s(self.run.settings), self.engine.after_stop)
        run = EngineRun(
            run=self.run,
            engine=self.engine,
            folder=self.folder,
            log=self.log,
            label=self.label,
            progress_label=self.progress_label,
            total=plan.num_rows,
            asn_of=self.mapper.asn,
            report=report,
        )
        with ExitStack() as stack:
            argv = self.arguments(report, stack)
            watch = self.accompany(run.feed, plan.num_rows, stack)
            run.drive(argv, watch, longest_s=self.longest_s)

    @property
    def label(self) -> str:
        """The stage's name in messages about paused networks."""
        return f"{self.key} {self.name}"

    def remove_results(self, rows: int | None) -> None:
        """Remove the segments, if the record file has `rows` rows."""
        finished.remove_segments(self.out, rows, self.segments)
