"""Stages that draw names and contact their addresses: handshake, calibrate, tcp_options.

They run after the probes of their key and only if their section of the settings, which has their name,
enables them. They keep the limits, lists and turns of the probe stage, and survive being killed at any
moment. What handshake and tcp_options share is more: one engine over one list, which pauses networks and
whose closed segments are kept, so that the next start leaves out the targets in them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from firstflight.as_map import Mapper
from firstflight.egress import shared_limits
from firstflight.errors import Interrupted, UsageError
from firstflight.layout import StageKey
from firstflight.run import clock
from firstflight.run.provenance import ruleset_hash
from firstflight.run.report import StageReport
from firstflight.run.run import Run
from firstflight.system import files
from firstflight.system.progress import Progress
from scanner.backoff.controller import Controller
from scanner.driver import between, choose, draw, leftovers, process, rules, summaries
from scanner.driver.feed import Feed
from scanner.driver.segments import begun, closed_segments, read_segment
from scanner.records import finished


class Drawn(NamedTuple):
    """The targets of such a stage, and what decides about them."""

    plan: pa.Table
    mapper: Mapper
    ruleset: str


class Stage(NamedTuple):
    """What one stage with one engine has of its own.

    `name`: also its section of the settings, and of the engine's log. `port`: of targets. `out`: the record
    file with a row per target. `argv` returns the engine's argument list; what it enters into the stack lives
    as long as the engine. `write` writes the record files; its last argument says
    that the engine was stopped.
    """

    name: str
    engine: process.Engine
    port: int
    out: Path
    argv: Callable[[StageReport, ExitStack], list[str]]
    write: Callable[[Drawn, StageReport, bool], None]
    cdn_by_answer: bool = False


def check_enabled(run: Run, name: str) -> None:
    """Raise UsageError if the settings do not enable the stage."""
    if not getattr(run.settings, name).enabled:
        raise UsageError(f"{name}.enabled is false in the settings of this run: nothing was sent")


def prepare(
    run: Run,
    key: StageKey,
    name: str,
    report: StageReport,
    *,
    port: int,
    begun: bool,
    done: str,
    cdn_by_answer: bool = False,
) -> Drawn:
    """Draw the targets of `key`, write targets.csv into the stage's folder, copy rule files into the run.

    `begun`: there are results already, so targets.csv may not change; `done` is the word for what happened to
    their targets. `cdn_by_answer` as in `rules.rule_files`. Raises FirstflightError; nothing was sent then.
    """
    folder = run.layout.stage(name, key)
    rules.check_lists(run)
    mapper = Mapper(run.layout.as_data)
    plan = draw.plan(run, key, name, mapper, folder)
    report.rows_in = plan.num_rows
    choose.write_targets(plan, port, folder / "targets.csv", mapper.asn, probed_already=begun, done=done)
    in_force = rules.rule_files(run, cdn_by_answer=cdn_by_answer)
    rules.copy_into_run(run, in_force)
    if plan.num_rows == 0:
        report.warnings.append(f"no name with an address was drawn ({name}.share, cdn, limit)")
    return Drawn(plan, mapper, ruleset_hash(in_force))


def execute(run: Run, key: StageKey, own: Stage) -> None:
    """Do the stage: draw, run the engine until every target has a row, write the record files.

    Raises FirstflightError; Interrupted, after the rows that exist are written, if the engine was stopped;
    Interrupted at once in the wait for an earlier engine.
    """
    check_enabled(run, own.name)
    folder = run.layout.stage(own.name, key)
    segments = folder / "segments"
    with run.stage(own.name, key) as report:
        report.warnings += leftovers.settle(folder, run.check_not_stopped)
        earlier = closed_segments(segments)
        drawn = prepare(
            run,
            key,
            own.name,
            report,
            port=own.port,
            begun=bool(earlier),
            done="connected with",
            cdn_by_answer=own.cdn_by_answer,
        )
        targets = drawn.plan.num_rows
        done = sum(int(read_segment(segment).num_rows) for segment in earlier)
        stopped: Interrupted | None = None
        # Killed before the summary was written: the engine, with nothing left to send, writes it now.
        if targets > done or (targets and not (folder / "summary.json").is_file()):
            try:
                _drive(run, key, own, report, drawn)
            except Interrupted as error:
                stopped = error
        own.write(drawn, report, stopped is not None)
        if stopped is not None:
            raise stopped
    # Not before the report says that the stage is done: without segments it would connect with all again.
    finished.remove_segments(own.out, report.rows_out, segments)


def options(run: Run, key: StageKey, name: str) -> process.Options:
    """Return the options that engines of such stages share: targets, rate, seed, files, limits, lists."""
    settings, section = run.settings, getattr(run.settings, name)
    folder = run.layout.stage(name, key)
    vantage = settings.vantage_named(key.vantage)
    of_stage = process.derive(str(run.manifest["cid_key"]), key, 7, name)
    return [
        ("--targets", folder / "targets.csv"),
        ("--rate", process.number(section.rate / key.shard.of)),
        ("--timeout", process.number(section.timeout_s)),
        ("--seed", int(run.manifest["seed"]) ^ int(of_stage, 16)),
        *process.shared_options(
            settings,
            vantage,
            folder,
            turn=shared_limits.turn_of(settings, vantage.name, key.shard),
            clock=clock.of(run, key),
        ),
    ]


def argument_list(program: str, options: process.Options, folder: Path, *flags: str) -> list[str]:
    """Return the argument list of an engine that has a feed, and goes on where segments in `folder` end."""
    resume = ["--resume"] * begun(folder / "segments")
    return process.argument_list(program, options, "--feed", *resume, *flags)


def _drive(run: Run, key: StageKey, own: Stage, report: StageReport, drawn: Drawn) -> None:
    """Run the engine until every target has a row in a closed segment; pause networks meanwhile."""
    folder = run.layout.stage(own.name, key)
    segments = folder / "segments"
    with files.explain_os_errors(segments):
        segments.mkdir(parents=True, exist_ok=True)
    between.wait(run, between.pause_s(run.settings), own.engine.kept)
    shown = f"{key.vantage} {own.name} {key.repetition}" + key.of_shard(" shard ")
    feed = Feed()
    controller = Controller(run.settings.manners, folder, drawn.mapper.asn, feed, f"{key} {own.name}")
    with ExitStack() as stack:
        argv = own.argv(report, stack)
        limit = partial(process.limit_of, folder)
        progress = stack.enter_context(Progress(folder, shown, drawn.plan.num_rows, limit))

        def watch() -> None:
            run.check_not_stopped()
            controller.update()
            progress.update(controller.listed_rows)

        summaries.set_aside(folder)
        try:
            longest_s = getattr(run.settings, own.name).timeout_s
            process.run(argv, folder / f"{own.name}.log", feed, watch, own.engine, longest_s=longest_s)
        finally:
            controller.update()
            progress.update(controller.listed_rows)
            report.warnings += controller.warnings
