"""The calibrate stage: sample names, send a probe and a handshake to each address, write the pairs.

Runs after the key's probes, and only if [calibrate] enables it. It samples like the handshake stage, so
equal shares have the same names. It keeps the limits, lists and turns of the probe stage. A kill at any
moment loses no results: pairs of finished blocks and closed segments of the current block are kept. The stage
records no capture.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from firstflight.layout import StageKey
from firstflight.run.report import StageReport
from firstflight.run.run import Run
from firstflight.system import files
from firstflight.system.reporting.progress import Progress
from scanner.calibrate import engines, pairs, records
from scanner.calibrate.engines import NAME
from scanner.calibrate.pairs import STEPS
from scanner.driver import choose, leftovers, process
from scanner.driver.segments import closed_segments
from scanner.records import finished
from scanner.sampled import SampledStage


def stage(run: Run, key: StageKey) -> None:
    """Contact the sampled addresses that the resolve stage found for `key`, each with both engines.

    Read dns_answer.parquet and as_data/; write calibration.parquet to the stage's folder. Raise
    FirstflightError, or UsageError if the settings do not enable the stage. SIGINT shuts it down gracefully.
    """
    CalibrateStage(run, key).execute()


class CalibrateStage(SampledStage):
    """The stage at one key. The results are pairs, in blocks."""

    name = NAME

    def settle(self) -> list[str]:
        """Do nothing: each step clears the folder before it runs."""
        return []

    def has_results(self) -> bool:
        """Return whether an earlier start has sent packets."""
        return bool(pairs.done(self.folder)) or (self.folder / "blocks").is_dir()

    def contact(self, plan: pa.Table, report: StageReport) -> None:
        """Send all unfinished blocks."""
        settings, seed = self.run.settings, int(self.run.manifest["seed"])
        # Contacts of finished steps, and the folder of the current one.
        contacts, current = 0, self.folder

        def limit() -> str | None:
            return process.limit_of(current)

        with Progress(self.folder, self.progress_label, 2 * plan.num_rows, limit) as progress:
            for number, block in pairs.blocks(plan, settings.calibrate.block):
                if pairs.path(self.folder, number).is_file():
                    contacts += 2 * block.num_rows
                    progress.update(contacts)
                    continue
                first = pairs.probe_first(block, seed, self.key.repetition)
                steps = self.folder / "blocks" / f"{number:06}"
                for step in STEPS:
                    mask, current = step.takes(first), steps / step.name
                    targets = int(np.count_nonzero(mask))
                    report.warnings += leftovers.settle(current, self.run.check_not_stopped)
                    if targets and not engines.is_done(current, targets):
                        self._write_targets(block, mask, current)
                        watch = partial(_show, progress, contacts, current)
                        engines.send(self.run, self.key, step.side, current, targets, watch)
                    contacts += targets
                pairs.write(self.folder, number, block, first, steps)
                _remove(steps)
                progress.update(contacts)

    def _write_targets(self, block: pa.Table, mask: pairs.Mask, step: Path) -> None:
        with files.explain_os_errors(step):
            step.mkdir(parents=True, exist_ok=True)
        choose.write_targets(
            choose.select_rows(block, mask),
            self.port,
            step / "targets.csv",
            self.mapper.asn,
            probed_already=bool(closed_segments(step / "segments")),
            done=self.done,
        )

    def write(self, plan: pa.Table, ruleset: str, report: StageReport, stopped: bool) -> None:
        """Write calibration.parquet from the finished blocks."""
        records.write(self.run, self.key, plan, ruleset, report, self.mapper, stopped)

    def remove_results(self, rows: int | None) -> None:
        """Remove pairs and blocks, if calibration.parquet has `rows` rows."""
        finished.remove_segments(self.run.layout.calibration(self.key), rows, self.folder / "pairs")
        _remove(self.folder / "blocks")


def _show(progress: Progress, contacts_before: int, step: Path) -> None:
    """Show the number of contacts in finished steps plus the rows of the current step."""
    progress.update(contacts_before + engines.rows_in(step))


def _remove(folder: Path) -> None:
    with files.explain_os_errors(folder), suppress(FileNotFoundError):
        shutil.rmtree(folder)
