"""The probe stage: select addresses, probe them under capture, write quic_probe.parquet."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path

import pyarrow as pa

from firstflight import capture_files
from firstflight.egress import shared_limits
from firstflight.layout import StageKey
from firstflight.run import clock
from firstflight.run.report import StageReport
from firstflight.run.run import Run
from scanner.driver import choose, prober
from scanner.driver.arguments import derive
from scanner.driver.capture import probe_capture
from scanner.driver.feed import FIRST_SLOT, Feed
from scanner.driver.segments import count_below
from scanner.planned import control
from scanner.records import quic_probe
from scanner.target_stage import EngineStage


def stage(run: Run, key: StageKey) -> None:
    """Probe the addresses that the resolve stage found for `key`.

    Read dns_answer.parquet and as_data/; write to the folders probe/ and capture/.
    docs/reference/run-files.md lists the files. Raise FirstflightError.
    SIGINT shuts the stage down gracefully.
    """
    ProbeStage(run, key).execute()


class ProbeStage(EngineStage):
    """The stage at one key."""

    name = "probe"
    done = "probed"
    engine = prober.PROBER

    @property
    def without_targets(self) -> str:
        """The warning if no name has an address."""
        if self._promised is not None:
            return "no name of the list has an address and an HTTPS record with h3 (probe.https_record)"
        return "no name of the list has an address; dns_answer has the reasons"

    @cached_property
    def _promised(self) -> pa.Array | None:
        return choose.contacted_over_quic(self.run, self.key)

    @property
    def log(self) -> str:
        """The name of the prober's log."""
        return "prober.log"

    @property
    def label(self) -> str:
        """The key."""
        return str(self.key)

    @property
    def out(self) -> Path:
        """quic_probe.parquet."""
        return self.run.layout.quic_probe(self.key)

    @property
    def longest_s(self) -> float:
        """The maximum time of a probe in flight, in seconds."""
        return prober.in_flight_s(self.run.settings)

    def settle(self) -> list[str]:
        """Also rename the captures of killed processes."""
        warnings = super().settle()
        capture_files.keep_parts(self.run.layout.stage("capture", self.key))
        return warnings

    def choose(self) -> pa.Table:
        """Return the addresses of every name, or of the names with h3 in their HTTPS record."""
        return choose.resolved(self.run, self.key, promised=self._promised)

    def rows_in(self, segment: Path) -> int:
        """Return the number of listed targets' rows. Planned probes of control names have larger numbers."""
        return count_below(segment, FIRST_SLOT)

    def arguments(self, _report: StageReport, _stack: ExitStack) -> list[str]:
        """Return the prober's command line."""
        run, key, settings = self.run, self.key, self.run.settings
        secret = str(run.manifest["cid_key"])
        vantage = settings.vantage_named(key.vantage)
        return prober.arguments(
            settings,
            vantage,
            self.folder,
            seed=int(run.manifest["seed"]) ^ int(derive(secret, key, 7), 16),
            cid_key=derive(secret, key, 16),
            turn=shared_limits.turn_of(settings, vantage.name, key.shard),
            clock=clock.of(run, key),
            shard=key.shard,
            initial_size=settings.probe.size_of(key.repetition),
        )

    def accompany(self, feed: Feed, targets: int, stack: ExitStack) -> Callable[[], None]:
        """Start the probes of control names and the capture."""
        controls = stack.enter_context(control.Controls(self.run, self.key, feed, self.mapper))
        capture = stack.enter_context(probe_capture(self.run, self.key, targets))

        def watch() -> None:
            if capture is not None:
                capture.check()
            controls.tick(time.time_ns())

        return watch

    def write(self, plan: pa.Table, ruleset: str, report: StageReport, stopped: bool) -> None:
        """Write quic_probe.parquet from the closed segments."""
        report.warnings += capture_files.losses(self.run.layout.stage("capture", self.key))
        quic_probe.write(self.run, self.key, plan, ruleset, report, self.mapper, stopped)
        if self._promised is not None and not stopped:
            families = self.run.settings.probe.families
            left_out = choose.names_left_out(self.run.layout.dns_answer(self.key), families, self._promised)
            report.facts["names_without_h3"] = left_out
