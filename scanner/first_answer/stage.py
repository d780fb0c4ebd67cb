"""The probe stage: choose addresses, probe them under capture, write quic_probe.parquet.

Can be cut at any moment: the prober's closed segments stay, a second start leaves out what they answer, and
the record file is written in one step at the end. A stage that is stopped in order writes the rows that there
are.
"""

from __future__ import annotations

import time
from contextlib import ExitStack

from firstflight.as_map import Mapper
from firstflight.egress import shared_limits
from firstflight.errors import InputError, Interrupted
from firstflight.run import clock
from firstflight.run.provenance import ruleset_hash
from firstflight.run.report import StageReport
from firstflight.run.run import Run
from firstflight.settings import Vantage
from firstflight.system import files
from firstflight.system.progress import Progress
from scanner.backoff.controller import Guard
from scanner.driver import choose, process, rules
from scanner.driver.capture import capture_beside
from scanner.driver.feed import FIRST_SLOT, Feed
from scanner.driver.segments import closed_segments, targets_in
from scanner.planned import control
from scanner.records import quic_probe


def stage(run: Run, vantage: str, repetition: int) -> None:
    """Probe the addresses that the resolve stage found for `vantage` in `repetition`.

    Reads dns_answer.parquet and as_data/; writes into the probe and capture folders (docs/architecture.md).
    Raises FirstflightError with one sentence; a Ctrl-C ends in order.
    """
    settings = run.settings
    with run.stage("probe", vantage, repetition) as report:
        rules.check_lists(run)
        folder = run.stage_dir("probe", vantage, repetition)
        dns_answer = run.dns_answer(vantage, repetition)
        if not dns_answer.is_file():
            raise InputError(f"there is no {dns_answer}: run the resolve stage of {vantage} first")
        plan = choose.choose(dns_answer, settings.probe.families, settings.probe.all_addresses)
        report.rows_in = plan.num_rows
        segments = folder / "segments"
        begun = closed_segments(segments)
        mapper = Mapper(run.as_data)
        choose.write_targets(
            plan,
            settings.probe.port,
            folder / "targets.csv",
            lambda ip: mapper.origin(ip).asn,
            probed_already=bool(begun),
        )
        in_force = rules.rule_files(run)
        rules.keep(run, in_force)
        answered = sum(1 for path in begun for target in targets_in(path) if target < FIRST_SLOT)
        stopped: Interrupted | None = None
        # Without a summary it was killed at the very end: the prober, with nothing left to send, writes it.
        if plan.num_rows > answered or (plan.num_rows and not (folder / "summary.json").is_file()):
            try:
                _probe(run, settings.vantage_named(vantage), repetition, plan.num_rows, report, mapper)
            except Interrupted as error:
                stopped = error
        elif plan.num_rows == 0:
            report.warnings.append("no name of the list has an address; dns_answer holds the reasons")
        quic_probe.write(
            run, vantage, repetition, plan, ruleset_hash(in_force), report, mapper, stopped is not None
        )
        if stopped is not None:
            raise stopped


def _probe(
    run: Run, vantage: Vantage, repetition: int, targets: int, report: StageReport, mapper: Mapper
) -> None:
    """Run the prober with the capture beside it, until every target has a row in a closed segment."""
    settings, manifest = run.settings, run.manifest
    folder = run.stage_dir("probe", vantage.name, repetition)
    segments = folder / "segments"
    with files.said_in_one_sentence(segments):
        segments.mkdir(parents=True, exist_ok=True)
    key = str(manifest["cid_key"])
    argv = process.arguments(
        settings,
        vantage,
        folder,
        seed=(int(manifest["seed"]) ^ int(process.derive(key, vantage.name, repetition, 7), 16)),
        cid_key=process.derive(key, vantage.name, repetition, 16),
        resume=bool(closed_segments(segments)),
        turn=shared_limits.turn_of(settings, vantage.name),
        clock=clock.of(run, vantage.name, repetition),
    )
    feed, label = Feed(), f"{vantage.name}, repetition {repetition}"
    looking = Guard(settings.manners, folder, lambda ip: mapper.origin(ip).asn, feed, label)
    with ExitStack() as stack:
        controls = stack.enter_context(control.Controls(run, vantage, repetition, feed, mapper))
        running = stack.enter_context(capture_beside(run, vantage, repetition))
        progress = stack.enter_context(Progress(folder, f"{vantage.name} probe {repetition}", targets))

        def watch() -> None:
            if running is not None:
                running.check()
            run.check_not_stopped()
            now_ns = time.time_ns()
            controls.tick(now_ns)
            looking.look(now_ns)
            progress.update(looking.rows)

        try:
            process.run(argv, folder / "prober.log", feed, watch)
        finally:
            looking.look(time.time_ns())
            progress.update(looking.rows)
            report.warnings += looking.warnings
    if running is not None:
        report.warnings += running.losses()
