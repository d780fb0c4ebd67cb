"""The campaign: which stage runs when and where, and what is written down about it.

Targets and AS data at the centre; then, per repetition, all vantage points at once (resolve, probe); then
their captures are dissected and everything is loaded. Every stage is a process of its own, and what is done
is not done again: running an interrupted campaign again is how it is resumed.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import ClassVar

from firstflight.errors import FirstflightError, InputError, UsageError
from firstflight.run import clock
from firstflight.run.run import CENTRE_STAGES, Run
from firstflight.settings import Settings, Vantage
from orchestration import process
from orchestration.local.console import Show
from orchestration.local.manifest import write_state
from orchestration.process import together


class CentreFailed(FirstflightError):
    """A stage that everything else needs failed; `exit_status` is that stage's own."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.exit_status = status if status > 0 else 1


@dataclass
class Campaign:
    """One campaign over one run. `run_all` does what is left to do; `failures` are sentences.

    `statuses` are those that failed vantage points ended with; `rejected` counts input lines that were not
    used; each has been named.
    """

    run: Run
    show: Show
    failures: list[str] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    rejected: int = 0
    # The stage that sends, and what its rows are.
    sending: ClassVar[str] = "probe"
    rows_are: ClassVar[str] = "probes"

    @property
    def settings(self) -> Settings:
        """The run's settings in force."""
        return self.run.settings

    @property
    def way_on(self) -> str:
        """How to go on with a run that was ended before its time."""
        return f"go on with: firstflight campaign run --resume {self.run.id}"

    async def run_all(self) -> None:
        """Do all that is not done yet. Raises CentreFailed; other failures are collected."""
        await self.centre()
        for repetition in range(1, int(self.run.manifest["repetitions"]) + 1):
            await self._repetition(repetition)

    @property
    def exit_status(self) -> int:
        """0: all is done; 1: the rest is done; 2 or 3 of the first vantage point if none came to its end."""
        places = [
            (vantage.name, repetition)
            for vantage in self.settings.vantage
            for repetition in range(1, int(self.run.manifest["repetitions"]) + 1)
        ]
        if self.statuses and not any(self.run.done(self.sending, *place) for place in places):
            own = (UsageError.exit_status, InputError.exit_status)
            return self.statuses[0] if self.statuses[0] in own else 1
        return 1 if self.failures or self.rejected else 0

    async def centre(self) -> None:
        """Targets and AS data. Raises CentreFailed."""
        centre = self.settings.centre
        missing = [name for name in CENTRE_STAGES if not self.run.done(name)]
        statuses = await together(
            self.stage([name], centre.command, None, [self.run.stage_dir(name)]) for name in missing
        )
        for name, status in zip(missing, statuses, strict=True):
            if not self.run.done(name):  # whatever the status: it may be that of the command before it
                raise CentreFailed(f"{name}: {self._reason([name], status)}", status)
        for name in CENTRE_STAGES:
            report = self.run.report(name)
            for line in report.rejected if report is not None else []:
                self.rejected += 1
                self.show.say(f"{name}: line {line.line} rejected: {line.reason}")

    async def _repetition(self, repetition: int) -> None:
        waiting = [v for v in self.settings.vantage if not self.run.done("probe", v.name, repetition)]
        if waiting:
            await self._wait_until_due(repetition)
            await self._hook(repetition)
            self.show.say(f"repetition {repetition}: {', '.join(v.name for v in waiting)}")
            await together(self._vantage(vantage, repetition) for vantage in waiting)
        await self.dissect(repetition)
        await self.load(f"repetition {repetition}")

    async def load(self, what: str) -> None:
        """Load everything after `what`: idempotent, finds out itself what is new."""
        status = await self.stage(["load"], (), None, [])
        if status != 0:
            self._failed(f"load after {what}: {self._reason(['load'], status)}")

    async def _vantage(self, vantage: Vantage, repetition: int) -> None:
        names = ["resolve", "probe"]
        folders = [self.run.stage_dir(name, vantage.name, repetition) for name in names]
        place = (vantage.name, repetition)
        status = await self.stage(names, vantage.command, vantage.program, folders, place)
        self.tell(names, place, status, f"{vantage.name}, repetition {repetition}")

    def tell(self, names: list[str], place: tuple[str, int], status: int, who: str) -> None:
        """Say how the last of these stages at a vantage point ended."""
        offset = clock.of(self.run, *place)
        warning = None if offset is None else clock.warning(offset, self.settings.clock.warn_s)
        if warning is not None:
            self.show.say(f"{who}: {warning}")
        if status != 0:
            self._failed(f"{who}: {self._reason(names, status, place)}")
            self.statuses.append(status)
            return
        if not self.run.done(self.sending, *place):
            self._failed(f"{who}: {self.sending} did not run: its command ended and left no report of it")
            self.statuses.append(1)
            return
        report = self.run.report(self.sending, *place)
        if report is not None:
            counts = ", ".join(f"{count} {name}" for name, count in report.counts.items())
            self.show.say(f"{who}: {report.rows_out} {self.rows_are} ({counts})")
            for warning in report.warnings:
                self.show.say(f"{who}: {warning}")

    async def dissect(self, repetition: int) -> None:
        """Dissect a repetition's captures here, at most one per processor at a time."""
        if not self.settings.capture.enabled:
            return
        places = [
            (vantage.name, repetition)
            for vantage in self.settings.vantage
            if self.run.done(self.sending, vantage.name, repetition)
            and not self.run.done("dissect", vantage.name, repetition)
        ]
        processors = asyncio.Semaphore(os.cpu_count() or 1)

        async def one(place: tuple[str, int]) -> None:
            async with processors:
                status = await self.stage(["dissect"], (), None, [], place)
            if status != 0:
                reason = self._reason(["dissect"], status, place)
                self._failed(f"dissect {place[0]}, repetition {place[1]}: {reason}")

        await together(one(place) for place in places)

    async def _wait_until_due(self, repetition: int) -> None:
        """Wait until the interval since the last repetition's start is over; note this one's start."""
        started: dict[str, str] = dict(self.run.manifest.get("repetition_started", {}))
        before = started.get(str(repetition - 1))
        if before is not None and str(repetition) not in started:
            interval = timedelta(seconds=self.settings.campaign.repetition_interval_s)
            due = datetime.fromisoformat(before) + interval
            wait_s = (due - datetime.now(UTC)).total_seconds()
            if wait_s > 0:
                self.show.say(f"repetition {repetition} begins at {due:%Y-%m-%d %H:%M:%S} UTC")
                await asyncio.sleep(wait_s)
        started.setdefault(str(repetition), datetime.now(UTC).isoformat())
        self.run.write_manifest({**self.run.manifest, "repetition_started": started})

    async def _hook(self, repetition: int) -> None:
        hook = self.settings.campaign.before_repetition
        if not hook:
            return
        argv = [word.replace("{repetition}", str(repetition)) for word in process.expand(hook)]
        log = self.run.path / "logs" / f"before_repetition-{repetition}.log"
        status = await process.run_to_end(argv, log)
        if status != 0:
            words = process.last_words(log) or f"ended with status {status}"
            raise CentreFailed(f"campaign.before_repetition ({' '.join(hook)}): {words}", status)

    async def stage(
        self,
        names: list[str],
        prefix: tuple[str, ...],
        program: str | None,
        folders: list[Path],
        place: tuple[str, int] | None = None,
        more: Sequence[str] = (),
    ) -> int:
        """Run stages in one process; the manifest is up to date when it has begun and when it has ended."""
        vantage, repetition = place or (None, None)
        argv = process.stage_argv(prefix, program, names, self.run.path, vantage, repetition, more)
        who = " ".join(filter(None, [vantage or names[0], "dissect" if names == ["dissect"] else ""]))
        self.show.begin(who, folders)
        try:
            return await process.run_to_end(argv, self._log(names, place))
        except UsageError as error:
            self._log(names, place).write_text(f"{error}\n", encoding="utf-8")
            return UsageError.exit_status
        finally:
            self.show.end(who)
            write_state(self.run, "running")

    def _log(self, names: list[str], place: tuple[str, int] | None) -> Path:
        where = "" if place is None else f"-{place[0]}-{place[1]}"
        return self.run.path / "logs" / f"{'+'.join(names)}{where}.log"

    def _reason(self, names: list[str], status: int, place: tuple[str, int] | None = None) -> str:
        words = process.last_words(self._log(names, place))
        if status < 0:
            return f"killed by {signal.Signals(-status).name}" + (
                f"; its last words: {words}" if words else ""
            )
        return words or f"ended with status {status}"

    def _failed(self, sentence: str) -> None:
        self.failures.append(sentence)
        self.show.say(sentence)
