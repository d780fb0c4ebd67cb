"""A period of a watch while it runs: the prober fed at the planned times, the capture beside it, addresses
resolved anew, networks that fall silent paused."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from firstflight.as_map import Mapper
from firstflight.layout import StageKey
from firstflight.run.provenance import tool_version
from firstflight.run.report import StageReport
from firstflight.run.run import Run
from firstflight.settings import Vantage
from firstflight.system import files
from firstflight.system.progress import Progress
from scanner.backoff.controller import Controller
from scanner.driver import process
from scanner.driver.capture import capture_beside
from scanner.driver.feed import Feed
from scanner.driver.segments import closed_segments
from scanner.planned import records
from scanner.planned.precedence import Precedence
from scanner.planned.probes import Feeder, PlannedProbe
from scanner.resolver.addresses import Addresses
from scanner.resolver.engine import Name
from scanner.resolver.names import configured_resolver


@dataclass(frozen=True)
class Period:
    """A period that was planned: whose it is, its slots, the names by domain, and the report of its stage."""

    run: Run
    key: StageKey
    probes: Sequence[PlannedProbe]
    known: dict[str, Name]
    mapper: Mapper
    report: StageReport

    @property
    def folder(self) -> Path:
        """Where it is written down."""
        return self.run.layout.stage("watch", self.key)

    @property
    def here(self) -> Vantage:
        """The vantage point, as declared."""
        return self.run.settings.vantage_named(self.key.vantage)

    @property
    def label(self) -> str:
        """For people."""
        return f"{self.key.vantage}, period {self.key.repetition}"

    def asn_of(self, ip: str) -> int | None:
        """The AS that announces an address."""
        return self.mapper.origin(ip).asn


def watch(period: Period, watched: Sequence[Name], precedence: Precedence) -> None:
    """Run the prober with the capture beside it until the period is over.

    Adds warnings and the clock's step to the period's report. Raises Interrupted when the run is stopped, and
    FirstflightError when prober or capture cannot go on.
    """
    run, report, folder = period.run, period.report, period.folder
    with files.explain_os_errors(folder):
        (folder / "segments").mkdir(parents=True, exist_ok=True)
    addresses = _addresses(period, watched)
    addresses.resolve()
    # Those of the period before may still wait for answers at the others.
    ports = run.settings.ports_at(period.here, half=period.key.repetition % 2)
    argv = _arguments(period, ports)
    feed = Feed()
    controller = Controller(run.settings.manners, folder, period.asn_of, feed, period.label)
    with ExitStack() as stack:
        capture = stack.enter_context(capture_beside(run, period.key, ports))
        progress = stack.enter_context(Progress(folder, period.label, len(period.probes)))
        feeder = _feeder(period, feed, addresses, precedence)
        stack.callback(feeder.close)
        stack.callback(lambda: addresses.write(folder / "dns_answer.parquet"))
        stack.callback(addresses.close)
        begun = False

        def look() -> None:
            """What is to be looked after all the time while the prober runs."""
            nonlocal begun
            if not begun:
                # Threads only now: the child processes have been started.
                begun = True
                addresses.resolve_every(run.settings.watch.resolve_every_s)
            if capture is not None:
                capture.check()
            run.check_not_stopped()
            now_ns = time.time_ns()
            precedence.update(now_ns)
            feeder.tick(now_ns)
            controller.update(now_ns)
            progress.update(controller.planned_rows)

        before = _clock_ns()
        try:
            process.run(argv, folder / "prober.log", feed, look)
        finally:
            controller.update(time.time_ns())
            progress.update(controller.planned_rows)
            report.warnings += controller.warnings
            _note_clock(period, (_clock_ns() - before) // 1000)
    if capture is not None:
        report.warnings += capture.losses()


def _addresses(period: Period, watched: Sequence[Name]) -> Addresses:
    settings = period.run.settings
    resolver = configured_resolver(settings.resolve)
    provenance = {
        **period.key.columns(),
        "resolver": resolver.label,
        "tool_version": tool_version(),
    }
    return Addresses(watched, settings.watch.families, resolver, settings.resolve, provenance)


def _feeder(period: Period, feed: Feed, addresses: Addresses, precedence: Precedence) -> Feeder:
    settings = period.run.settings
    # A slot that was handed over before the stage was cut is not probed twice.
    begun = {entry["slot"] for entry in records.fed(period.folder)}
    return Feeder(
        feed,
        period.folder / records.LOG,
        (probe for probe in period.probes if probe.number not in begun),
        address=addresses.of,
        asn_of=period.asn_of,
        grace_ms=lambda _: settings.watch.grace_ms,
        port=settings.probe.port,
        reason_to_skip=precedence.reason_to_skip,
    )


def _arguments(period: Period, ports: str) -> list[str]:
    """The prober's command line: seed and connection IDs from the run's own, for this period alone."""
    run, key = period.run, period.key
    secret = str(run.manifest["cid_key"])
    return process.arguments(
        run.settings,
        period.here,
        period.folder,
        seed=int(run.manifest["seed"]) ^ int(process.derive(secret, key, 7), 16),
        cid_key=process.derive(secret, key, 16),
        resume=bool(closed_segments(period.folder / "segments")),
        listed=False,
        ports=ports,
    )


def _clock_ns() -> int:
    """What the clock of the day is ahead of one that nobody sets."""
    return time.time_ns() - time.monotonic_ns()


def _note_clock(period: Period, step_us: int) -> None:
    period.report.facts["clock_step_us"] = step_us
    if abs(step_us) > period.run.settings.watch.grace_ms * 1000:
        period.report.warnings.append(
            f"the clock here was set by {step_us / 1e6:.1f} s during the period: planned times were "
            "kept by the clock before, stamps are the kernel's"
        )
