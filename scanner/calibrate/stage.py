"""The calibrate stage: draw names, send a probe and a handshake to each address, write the pairs.

Runs after the probes of its key and only if [calibrate] enables it. It draws as the handshake stage does, so
of the same share the same names, and keeps the limits, lists and turns of the probe stage. It survives being
killed at any moment: of a block that is done the pairs are kept, of the one at hand the closed segments. It
takes no capture.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from firstflight.as_map import Mapper
from firstflight.errors import Interrupted
from firstflight.layout import StageKey
from firstflight.run.report import StageReport
from firstflight.run.run import Run
from firstflight.system import files
from firstflight.system.progress import Progress
from scanner import drawn
from scanner.calibrate import engines, pairs, records
from scanner.calibrate.engines import NAME
from scanner.calibrate.pairs import STEPS
from scanner.driver import choose, leftovers, process
from scanner.driver.segments import closed_segments
from scanner.records import finished


def stage(run: Run, key: StageKey) -> None:
    """Contact the drawn share of the addresses that the resolve stage found for `key`, each by both engines.

    Reads dns_answer.parquet and as_data/; writes calibration.parquet into the stage's folder. Raises
    FirstflightError, UsageError if the settings do not enable it; SIGINT shuts down gracefully.
    """
    drawn.check_enabled(run, NAME)
    folder = run.layout.stage(NAME, key)
    with run.stage(NAME, key) as report:
        begun = bool(pairs.done(folder)) or (folder / "blocks").is_dir()
        port = run.settings.probe.port
        found = drawn.prepare(run, key, NAME, report, port=port, begun=begun, done="contacted")
        stopped: Interrupted | None = None
        try:
            _send(run, key, found, report)
        except Interrupted as error:
            stopped = error
        records.write(run, key, found.plan, found.ruleset, report, found.mapper, stopped is not None)
        if stopped is not None:
            raise stopped
    # Not before the report says that the stage is done: without them it would contact all again.
    finished.remove_segments(run.layout.calibration(key), report.rows_out, folder / "pairs")
    _remove(folder / "blocks")


def _send(run: Run, key: StageKey, found: drawn.Drawn, report: StageReport) -> None:
    """Send all blocks that are not done."""
    plan = found.plan
    settings = run.settings
    folder = run.layout.stage(NAME, key)
    shown = f"{key.vantage} {NAME} {key.repetition}" + key.of_shard(" shard ")
    # Of the steps that are done, and of the one at hand.
    contacts, at_hand = 0, folder

    def limit() -> str | None:
        return process.limit_of(at_hand)

    with Progress(folder, shown, 2 * plan.num_rows, limit) as progress:
        for number, block in pairs.blocks(plan, settings.calibrate.block):
            if not pairs.path(folder, number).is_file():
                first = pairs.probe_first(block, int(run.manifest["seed"]), key.repetition)
                steps = folder / "blocks" / f"{number:06}"
                for step in STEPS:
                    taken, at_hand = step.takes(first), steps / step.name
                    targets = int(np.count_nonzero(taken))
                    report.warnings += leftovers.settle(at_hand, run.check_not_stopped)
                    if targets and not engines.is_done(at_hand, targets):
                        _write_targets(run, block, taken, at_hand, found.mapper)
                        watch = partial(_show, progress, contacts, at_hand)
                        engines.send(run, key, step.side, at_hand, targets, watch)
                    contacts += targets
                pairs.write(folder, number, block, first, steps)
                _remove(steps)
            else:
                contacts += 2 * block.num_rows
            progress.update(contacts)


def _show(progress: Progress, before: int, step: Path) -> None:
    """Show the contacts of the steps that are done and the rows of the one at hand."""
    progress.update(before + engines.rows_in(step))


def _write_targets(run: Run, block: pa.Table, taken: pairs.Mask, step: Path, mapper: Mapper) -> None:
    with files.explain_os_errors(step):
        step.mkdir(parents=True, exist_ok=True)
    choose.write_targets(
        choose.only(block, taken, step),
        run.settings.probe.port,
        step / "targets.csv",
        mapper.asn,
        probed_already=bool(closed_segments(step / "segments")),
        done="contacted",
    )


def _remove(folder: Path) -> None:
    with files.explain_os_errors(folder), suppress(FileNotFoundError):
        shutil.rmtree(folder)
