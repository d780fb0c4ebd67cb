"""The probe stage: choose addresses, probe them under capture, write quic_probe.parquet.

Survives being killed at any moment: closed segments are kept, the next start skips the targets in them, and
the record file is written in one step at the end. A stage that is stopped gracefully writes the rows it has,
unless it still waited for an earlier engine.
The segments of a stage that is done are removed: its record file holds their rows.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from functools import partial

from firstflight import capture_files
from firstflight.as_map import Mapper
from firstflight.egress import shared_limits
from firstflight.errors import InputError, Interrupted
from firstflight.layout import StageKey
from firstflight.run import clock
from firstflight.run.provenance import ruleset_hash
from firstflight.run.report import StageReport
from firstflight.run.run import Run
from firstflight.system import files
from firstflight.system.progress import Progress
from scanner.backoff.controller import Controller
from scanner.driver import between, choose, leftovers, process, rules, summaries
from scanner.driver.capture import probe_capture
from scanner.driver.feed import FIRST_SLOT, Feed
from scanner.driver.segments import begun, closed_segments, count_below
from scanner.planned import control
from scanner.records import quic_probe


def stage(run: Run, key: StageKey) -> None:
    """Probe the addresses that the resolve stage found for `key`.

    Reads dns_answer.parquet and as_data/; writes into the probe and capture folders (docs/architecture.md).
    Raises FirstflightError; SIGINT shuts down gracefully.
    """
    settings = run.settings
    with run.stage("probe", key) as report:
        rules.check_lists(run)
        folder = run.layout.stage("probe", key)
        segments = folder / "segments"
        report.warnings += leftovers.settle(folder, run.check_not_stopped)
        capture_files.keep_parts(run.layout.stage("capture", key))
        dns_answer = run.layout.dns_answer(key)
        if not dns_answer.is_file():
            raise InputError(f"there is no {dns_answer}: run the resolve stage of {key.vantage} first")
        plan = choose.choose(dns_answer, settings.probe.families, settings.probe.all_addresses, folder)
        report.rows_in = plan.num_rows
        earlier = closed_segments(segments)
        mapper = Mapper(run.layout.as_data)
        choose.write_targets(
            plan,
            settings.probe.port,
            folder / "targets.csv",
            mapper.asn,
            probed_already=bool(earlier),
        )
        in_force = rules.rule_files(run)
        rules.copy_into_run(run, in_force)
        answered = sum(count_below(path, FIRST_SLOT) for path in earlier)
        stopped: Interrupted | None = None
        # Killed before the summary was written: the prober, with nothing left to send, writes it now.
        if plan.num_rows > answered or (plan.num_rows and not (folder / "summary.json").is_file()):
            try:
                _probe(run, key, plan.num_rows, report, mapper)
            except Interrupted as error:
                stopped = error
        elif plan.num_rows == 0:
            report.warnings.append("no name of the list has an address; dns_answer holds the reasons")
        report.warnings += capture_files.losses(run.layout.stage("capture", key))
        quic_probe.write(run, key, plan, ruleset_hash(in_force), report, mapper, stopped is not None)
        if stopped is not None:
            raise stopped
    # Not before the report says that the stage is done: without segments it would probe everything again.
    quic_probe.remove_segments(run, key, report.rows_out)


def _probe(run: Run, key: StageKey, targets: int, report: StageReport, mapper: Mapper) -> None:
    """Run the prober and the capture until every target has a row in a closed segment."""
    settings, manifest = run.settings, run.manifest
    vantage = settings.vantage_named(key.vantage)
    folder = run.layout.stage("probe", key)
    segments = folder / "segments"
    with files.explain_os_errors(segments):
        segments.mkdir(parents=True, exist_ok=True)
    secret = str(manifest["cid_key"])
    argv = process.arguments(
        settings,
        vantage,
        folder,
        seed=(int(manifest["seed"]) ^ int(process.derive(secret, key, 7), 16)),
        cid_key=process.derive(secret, key, 16),
        resume=begun(segments),
        turn=shared_limits.turn_of(settings, vantage.name, key.shard),
        clock=clock.of(run, key),
        shard=key.shard,
        initial_size=settings.probe.size_of(key.repetition),
    )
    between.wait(run, between.pause_s(settings), process.PROBER.kept)
    feed, label = Feed(), str(key)
    shown = f"{key.vantage} probe {key.repetition}" + key.of_shard(" shard ")
    controller = Controller(settings.manners, folder, mapper.asn, feed, label)
    with ExitStack() as stack:
        controls = stack.enter_context(control.Controls(run, key, feed, mapper))
        running = stack.enter_context(probe_capture(run, key, targets))
        limit = partial(process.limit_of, folder)
        progress = stack.enter_context(Progress(folder, shown, targets, limit))

        def watch() -> None:
            if running is not None:
                running.check()
            run.check_not_stopped()
            controls.tick(time.time_ns())
            controller.update()
            progress.update(controller.listed_rows)

        summaries.set_aside(folder)
        try:
            process.run(argv, folder / "prober.log", feed, watch, longest_s=process.in_flight_s(settings))
        finally:
            controller.update()
            progress.update(controller.listed_rows)
            report.warnings += controller.warnings
