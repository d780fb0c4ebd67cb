"""The campaign: runs the stages in order, each at its location.

First targets and AS data at the centre; then, per repetition, all vantage points concurrently (resolve,
probe); then their captures are dissected and everything is loaded. Every stage is a separate process. Stages
that are done are skipped, so that running an interrupted campaign again resumes it.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from firstflight import capture_files
from firstflight.errors import FirstflightError, InputError, OutputError, UsageError
from firstflight.layout import StageKey
from firstflight.run import clock
from firstflight.run.run import Run
from firstflight.settings import Settings, Vantage
from orchestration import runner, stages
from orchestration.local.console import Console
from orchestration.local.manifest import write_state
from orchestration.runner import run_together
from orchestration.stages import RunPlan, Stage


class CentreFailed(FirstflightError):
    """A stage that all others depend on failed; `exit_status` is that stage's."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.exit_status = status if status > 0 else 1


@dataclass
class LocalCampaign:
    """A campaign for a run. `run_all` runs all unfinished stages; `failures` are error messages.

    `statuses` are the exit statuses of failed vantage points; `rejected` counts input lines that were not
    used and were printed.
    """

    run: Run
    console: Console
    plan: RunPlan = RunPlan.SCAN
    failures: list[str] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    rejected: int = 0

    @property
    def settings(self) -> Settings:
        """The run's settings in force."""
        return self.run.settings

    @property
    def measuring(self) -> list[Stage]:
        """The stages that measure in this campaign."""
        return stages.measuring(self.plan, self.settings)

    def keys(self, repetition: int) -> list[StageKey]:
        """Return one key for each vantage point and shard."""
        vantages = [vantage.name for vantage in self.settings.vantage]
        return [key for name in vantages for key in stages.keys(self.run, name, repetition)]

    def measured(self, key: StageKey) -> bool:
        """Return whether the key's rows exist."""
        return all(self.run.done(stage.name, key) for stage in self.measuring)

    @property
    def resume_hint(self) -> str:
        """Return a hint how to continue a stopped run."""
        return f"continue with: firstflight campaign run --resume {self.run.id}"

    async def run_all(self) -> None:
        """Run all that is not done yet. Raises CentreFailed; collects other failures."""
        await self.check_far()
        await self.centre()
        await self.from_centre()
        for repetition in range(1, int(self.run.manifest["repetitions"]) + 1):
            await self._repetition(repetition)

    @property
    def exit_status(self) -> int:
        """0: all parts are done; 1: some failed; if all vantage points failed, the first one's status."""
        keys = [
            key
            for repetition in range(1, int(self.run.manifest["repetitions"]) + 1)
            for key in self.keys(repetition)
        ]
        if self.statuses and not any(map(self.measured, keys)):
            known_statuses = (UsageError.exit_status, InputError.exit_status)
            return self.statuses[0] if self.statuses[0] in known_statuses else 1
        return 1 if self.failures or self.rejected else 0

    async def check_far(self) -> None:
        """Check remote vantage points before anything is fetched; local ones were checked earlier.

        Raises CentreFailed if a vantage point cannot measure. An unreachable one is only reported, because it
        may be reachable later.
        """
        repetitions = range(1, int(self.run.manifest["repetitions"]) + 1)
        unmeasured = {key.vantage for n in repetitions for key in self.keys(n) if not self.measured(key)}
        far = [vantage for vantage in self.settings.vantage if vantage.command and vantage.name in unmeasured]
        logs = [self.run.layout.log(f"doctor-{vantage.name}") for vantage in far]
        for log in logs:
            log.unlink(missing_ok=True)
        statuses = await run_together(
            self._check_far(*vantage_and_log) for vantage_and_log in zip(far, logs, strict=True)
        )
        for vantage, log, status in zip(far, logs, statuses, strict=True):
            wrong = runner.lines_of(log, "failed: ")
            if status == 1 and wrong:
                raise CentreFailed(f"{vantage.name}: {'; '.join(wrong)}", UsageError.exit_status)
            if status != 0:
                self.console.print_line(f"{vantage.name} was not checked: {runner.last_line(log)}")

    async def _check_far(self, vantage: Vantage, log: Path) -> int:
        """Check a remote vantage point; return the exit status."""
        try:
            return await runner.run_to_end(runner.doctor_argv(vantage, self.run.path), log)
        except UsageError as error:  # its command cannot be started
            log.write_text(f"{error}\n", encoding="utf-8")
            return UsageError.exit_status

    async def centre(self) -> None:
        """Run targets and AS data. Raises CentreFailed."""
        centre = self.settings.centre
        names = stages.names(stages.at_centre())
        missing = [name for name in names if not self.run.done(name)]
        statuses = await run_together(self.stage([name], centre.command, None) for name in missing)
        for name, status in zip(missing, statuses, strict=True):
            if not self.run.done(name):  # whatever the status: it may be the prefix command's
                raise CentreFailed(f"{name}: {self._reason([name], status)}", status)
        for name in names:
            report = self.run.report(name)
            for line in report.rejected if report is not None else []:
                self.rejected += 1
                self.console.print_line(f"{name}: line {line.line} rejected: {line.reason}")

    async def from_centre(self) -> None:
        """Run the stages that measure from the centre, once per run.

        A failure is only recorded, because no later stage needs their results.
        """
        for stage in stages.from_centre(self.plan, self.settings):
            if self.run.done(stage.name):
                continue
            status = await self.stage([stage.name], self.settings.centre.command, None)
            report = self.run.report(stage.name)
            if report is None or not self.run.done(stage.name):
                self._failed(f"{stage.name}: {self._reason([stage.name], status)}")
                continue
            counts = ", ".join(f"{count} {name}" for name, count in report.counts.items())
            self.console.print_line(f"{stage.name}: {report.rows_out} names ({counts})")

    async def _repetition(self, repetition: int) -> None:
        waiting = [key for key in self.keys(repetition) if not self.measured(key)]
        if waiting:
            await self._wait_until_due(repetition)
            await self._hook(repetition)
            shown = ", ".join(key.vantage + key.of_shard(" shard ") for key in waiting)
            self.console.print_line(f"repetition {repetition}: {shown}")
            await run_together(self.measure(key, str(key)) for key in waiting)
        await self.run_later_stages(repetition)
        await self.load(f"repetition {repetition}")

    async def load(self, part: str) -> None:
        """Load all new results; idempotent. `part` is the finished part, for messages."""
        status = await self.stage([stages.LOAD], (), None)
        if status != 0:
            self._failed(f"load after {part}: {self._reason([stages.LOAD], status)}")

    async def measure(self, key: StageKey, who: str, more: Sequence[str] = ()) -> None:
        """Run the stages that send at a vantage point, all in the same process, and print their results."""
        vantage = self.settings.vantage_named(key.vantage)
        names = stages.names(stages.at_vantage(self.plan, self.settings))
        status = await self.stage(names, vantage.command, vantage.program, key, more)
        self._report(names, key, status, who)

    def _report(self, names: list[str], key: StageKey, status: int, who: str) -> None:
        offset = clock.of(self.run, key)
        warning = None if offset is None else clock.warning(offset, self.settings.clock.warn_s)
        if warning is not None:
            self.console.print_line(f"{who}: {warning}")
        if status != 0:
            self._failed(f"{who}: {self._reason(names, status, key)}")
            self.statuses.append(status)
            return
        for stage in self.measuring:
            report = self.run.report(stage.name, key)
            if report is None or not self.run.done(stage.name, key):
                self._failed(f"{who}: {stage.name} did not run: its command ended without a report")
                self.statuses.append(1)
                return
            counts = ", ".join(f"{count} {name}" for name, count in report.counts.items())
            self.console.print_line(f"{who}: {report.rows_out} {stage.measures} ({counts})")
            for warning in report.warnings:
                self.console.print_line(f"{who}: {warning}")

    async def run_later_stages(self, repetition: int) -> None:
        """Run the stages that process measurements, here, at most one key per processor at a time."""
        names = stages.names(stages.processing(self.plan, self.settings))
        processors = asyncio.Semaphore(os.cpu_count() or 1)

        async def process(key: StageKey) -> None:
            for name in names:
                if self.run.done(name, key) or self._has_nothing(name, key):
                    continue
                async with processors:
                    status = await self.stage([name], (), None, key)
                if status != 0:
                    self._failed(f"{name} {key}: {self._reason([name], status, key)}")
                    return

        await run_together(process(key) for key in self.keys(repetition) if self.measured(key))

    def _has_nothing(self, name: str, key: StageKey) -> bool:
        """Return whether a stage needs a capture but its shard, which contains no names, did not make one."""
        needs = stages.named(name).needs_capture and not key.shard.is_whole
        return needs and not capture_files.records(self.run.layout.stage("capture", key))

    async def _wait_until_due(self, repetition: int) -> None:
        """Wait for the interval since the last repetition's start; record the start of this repetition."""
        started: dict[str, str] = dict(self.run.manifest.get("repetition_started", {}))
        before = started.get(str(repetition - 1))
        if before is not None and str(repetition) not in started:
            interval = timedelta(seconds=self.settings.campaign.repetition_interval_s)
            now = datetime.now(UTC)
            wait_s = until_due_s(datetime.fromisoformat(before), interval, now)
            if wait_s > 0:
                due = now + timedelta(seconds=wait_s)
                self.console.print_line(f"repetition {repetition} starts at {due:%Y-%m-%d %H:%M:%S} UTC")
                await asyncio.sleep(wait_s)
        started.setdefault(str(repetition), datetime.now(UTC).isoformat())
        self.run.write_manifest({**self.run.manifest, "repetition_started": started})

    async def _hook(self, repetition: int) -> None:
        hook = self.settings.campaign.before_repetition
        if not hook:
            return
        argv = [word.replace("{repetition}", str(repetition)) for word in runner.expand(hook)]
        log = self.run.layout.log(f"before_repetition-{repetition}")
        status = await runner.run_to_end(argv, log)
        if status != 0:
            reason = runner.last_line(log) or f"ended with status {status}"
            raise CentreFailed(f"campaign.before_repetition ({' '.join(hook)}): {reason}", status)

    async def stage(
        self,
        names: list[str],
        prefix: tuple[str, ...],
        program: str | None,
        key: StageKey | None = None,
        more: Sequence[str] = (),
    ) -> int:
        """Run stages in a single process; update the manifest when it exits."""
        argv = runner.stage_argv(prefix, program, names, self.run.path, key, more)
        first = stages.named(names[0])
        who = names[0]
        if key is not None:
            who = key.vantage + key.of_shard(" shard ") + ("" if first.sends else f" {who}")
        # The folders of their progress files.
        folders = [self.run.layout.stage(name, key) for name in names]
        self.console.begin(who, folders)
        try:
            return await runner.run_to_end(argv, self._log(names, key), behind=bool(prefix))
        except UsageError as error:
            self._log(names, key).write_text(f"{error}\n", encoding="utf-8")
            return UsageError.exit_status
        finally:
            self.console.end(who)
            write_state(self.run, "running")

    def _log(self, names: list[str], key: StageKey | None) -> Path:
        return self.run.layout.log("+".join(names), key)

    def _reason(self, names: list[str], status: int, key: StageKey | None = None) -> str:
        line = runner.last_line(self._log(names, key))
        if status < 0:
            return f"killed by {signal.Signals(-status).name}" + (
                f"; its last output: {line}" if line else ""
            )
        if line:
            return line
        # On a full disk the stage cannot write its error message either.
        why = "; its log is empty: is the disk full?" if status == OutputError.exit_status else ""
        return f"ended with status {status}{why}"

    def _failed(self, sentence: str) -> None:
        self.failures.append(sentence)
        self.console.print_line(sentence)


def until_due_s(before: datetime, interval: timedelta, now: datetime) -> float:
    """Return the seconds until a repetition is due, `interval` after the start of the last one.

    Never more than `interval`, so that a clock that was set back since does not delay the campaign.
    """
    return min(max(before + interval - now, timedelta()), interval).total_seconds()
