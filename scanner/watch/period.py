"""Runs one period of a watch: feeds the prober, captures, resolves addresses and pauses networks."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from firstflight import capture_files
from firstflight.as_map import Mapper
from firstflight.layout import StageKey
from firstflight.run.provenance import tool_version
from firstflight.run.report import StageReport
from firstflight.run.run import Run
from firstflight.settings import Vantage
from scanner.backoff import pauses
from scanner.driver import prober
from scanner.driver.arguments import derive
from scanner.driver.capture import probe_capture
from scanner.driver.feed import Feed
from scanner.engine_run import EngineRun
from scanner.planned import records
from scanner.planned.precedence import Precedence
from scanner.planned.probes import Feeder, PlannedProbe
from scanner.resolver.addresses import Addresses
from scanner.resolver.configured import configured_resolver, lists_for
from scanner.resolver.names import Name


@dataclass(frozen=True)
class WatchPeriod:
    """A planned period: run and key, planned probes, names by domain, and the stage's report."""

    run: Run
    key: StageKey
    probes: Sequence[PlannedProbe]
    known: dict[str, Name]
    mapper: Mapper
    report: StageReport

    @property
    def folder(self) -> Path:
        """The folder of the period's files."""
        return self.run.layout.stage("watch", self.key)

    @property
    def here(self) -> Vantage:
        """The vantage point's settings."""
        return self.run.settings.vantage_named(self.key.vantage)

    @property
    def label(self) -> str:
        """The period's name in messages."""
        return f"{self.key.vantage}, period {self.key.repetition}"

    def asn_of(self, ip: str) -> int | None:
        """Return the AS that announces an address."""
        return self.mapper.asn(ip)


def watch(period: WatchPeriod, watched: Sequence[Name], precedence: Precedence) -> None:
    """Run the prober and the capture until the period is over.

    Add warnings and the clock's step to the period's report. Raise Interrupted when the run is stopped, and
    FirstflightError when the prober or the capture fails.
    """
    run, report, folder = period.run, period.report, period.folder
    addresses, answers = _addresses(period, watched), folder / "dns_answer.parquet"
    addresses.await_lists(run.check_not_stopped)
    addresses.resolve()
    # Written immediately, here and after each later resolution, so that a killed stage keeps them.
    addresses.write(answers)
    # The previous period may still wait for answers on the other half of the ports.
    ports = run.settings.ports_at(period.here, half=period.key.repetition % 2)
    if earlier := list(period.key.earlier()):
        # A pause does not stop at the end of a period.
        previous_folder = run.layout.stage("watch", earlier[-1])
        resume_after_s = run.settings.backoff.resume_after_s
        pauses.carry_over(previous_folder, folder, now_ns=time.time_ns(), resume_after_s=resume_after_s)
    run_of_prober = EngineRun(
        run=run,
        engine=prober.PROBER,
        folder=folder,
        log="prober.log",
        label=period.label,
        progress_label=period.label,
        total=len(period.probes),
        asn_of=period.asn_of,
        report=report,
        planned=True,
    )
    argv = _arguments(period, ports)
    with ExitStack() as stack:
        capture = stack.enter_context(probe_capture(run, period.key, len(period.probes), ports))
        feeder = _feeder(period, run_of_prober.feed, addresses, precedence)
        stack.callback(feeder.close)
        stack.callback(addresses.write, answers)
        stack.callback(addresses.close)
        resolves = False

        def periodic() -> None:
            """Do the periodic work while the prober runs."""
            nonlocal resolves
            if not resolves:
                # Started only now, because no threads may exist when child processes are started.
                resolves = True
                addresses.resolve_every(run.settings.watch.resolve_every_s, answers)
            if capture is not None:
                capture.check()
            precedence.update(time.time_ns())
            # The prober uses the wall clock as it was at its start, even if the clock is set later.
            feeder.tick(clock_before + time.monotonic_ns())

        clock_before = _clock_ns()
        try:
            run_of_prober.drive(argv, periodic, longest_s=prober.in_flight_s(run.settings))
        finally:
            _note_clock(period, (_clock_ns() - clock_before) // 1000)
    report.warnings += capture_files.losses(run.layout.stage("capture", period.key))


def _addresses(period: WatchPeriod, watched: Sequence[Name]) -> Addresses:
    settings = period.run.settings
    resolver = configured_resolver(settings.resolve)
    provenance = {
        **period.key.columns(),
        "resolver": resolver.label,
        "tool_version": tool_version(),
    }
    lists = lists_for(resolver, settings)
    return Addresses(watched, settings.watch.families, resolver, settings.resolve, lists, provenance)


def _feeder(period: WatchPeriod, feed: Feed, addresses: Addresses, precedence: Precedence) -> Feeder:
    settings = period.run.settings
    # A probe that was submitted before the stage was killed is not submitted again.
    submitted = {entry["slot"] for entry in records.feeder_log(period.folder)}
    return Feeder(
        feed,
        period.folder / records.LOG,
        (probe for probe in period.probes if probe.number not in submitted),
        address=addresses.of,
        asn_of=period.asn_of,
        grace_ms=lambda _: settings.watch.grace_ms,
        port=settings.probe.port,
        reason_to_skip=precedence.reason_to_skip,
    )


def _arguments(period: WatchPeriod, ports: str) -> list[str]:
    """Return the prober's command line, with a seed and connection IDs derived for this period."""
    run, key = period.run, period.key
    secret = str(run.manifest["cid_key"])
    return prober.arguments(
        run.settings,
        period.here,
        period.folder,
        seed=int(run.manifest["seed"]) ^ int(derive(secret, key, 7), 16),
        cid_key=derive(secret, key, 16),
        listed=False,
        ports=ports,
        initial_size=run.settings.probe.initial_size,
    )


def _clock_ns() -> int:
    """Return the difference between the wall clock and the monotonic clock."""
    return time.time_ns() - time.monotonic_ns()


def _note_clock(period: WatchPeriod, step_us: int) -> None:
    period.report.facts["clock_step_us"] = step_us
    if abs(step_us) > period.run.settings.watch.grace_ms * 1000:
        period.report.warnings.append(
            f"the local clock was set by {step_us / 1e6:.1f} s during the period: planned times "
            "follow the clock before that, stamps are the kernel's"
        )
