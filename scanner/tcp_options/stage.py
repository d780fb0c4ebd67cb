"""The tcp_options stage: draw names, connect with each address by TCP, write which options were agreed.

Runs after the handshakes of its key and only if [tcp_options] enables it. It keeps the limits, lists and
turns of the probe stage, pauses networks as that does, and like that survives being killed at any moment. Its
SYNs come from a network namespace in which all options are offered, behind this one; where none can be made,
from here, and options that are not offered are null.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

import pyarrow as pa

from firstflight.as_map import Mapper
from firstflight.egress import lab, shared_limits
from firstflight.errors import FirstflightError, Interrupted, UsageError
from firstflight.layout import StageKey
from firstflight.run import clock
from firstflight.run.provenance import ruleset_hash
from firstflight.run.report import StageReport
from firstflight.run.run import Run
from firstflight.system import files
from firstflight.system.netns import Masqueraded
from firstflight.system.progress import Progress
from scanner.backoff import pauses
from scanner.backoff.controller import Controller
from scanner.driver import choose, draw, process, rules
from scanner.driver.feed import Feed
from scanner.driver.mapped import joined
from scanner.driver.rows import Rows
from scanner.driver.segments import closed_segments, read_segment
from scanner.records import counts, finished, merge
from scanner.records.provenance import provenance
from schemas import records

NAME, KIND = "tcp_options", "tcp_option"
ENGINE = process.Engine("TCP engine", "what was done is kept, and --resume continues")
# Every option is offered; a SYN without ECN after a lost one is the kernel's (RFC 3168 6.1.1.1).
OFFERED = {
    "ipv4/tcp_ecn": "1",
    "ipv4/tcp_sack": "1",
    "ipv4/tcp_window_scaling": "1",
    "ipv4/tcp_timestamps": "1",
}


def stage(run: Run, key: StageKey) -> None:
    """Connect with the drawn share of the addresses that the resolve stage found for `key`.

    Reads dns_answer.parquet and as_data/; writes tcp_option.parquet into the stage's folder. Raises
    FirstflightError, UsageError if the settings do not enable it; SIGINT shuts down gracefully.
    """
    settings = run.settings
    if not settings.tcp_options.enabled:
        raise UsageError("tcp_options.enabled is false in the settings of this run: nothing was sent")
    folder = run.layout.stage(NAME, key)
    segments = folder / "segments"
    with run.stage(NAME, key) as report:
        rules.check_lists(run)
        mapper = Mapper(run.layout.as_data)
        plan = draw.plan(run, key, NAME, mapper, folder)
        report.rows_in = plan.num_rows
        earlier = closed_segments(segments)
        choose.write_targets(
            plan,
            settings.tcp_options.port,
            folder / "targets.csv",
            mapper.asn,
            probed_already=bool(earlier),
            done="connected with",
        )
        in_force = rules.rule_files(run)
        rules.copy_into_run(run, in_force)
        done = sum(int(read_segment(segment).num_rows) for segment in earlier)
        stopped: Interrupted | None = None
        # Killed before the summary was written: the engine, with nothing left to send, writes it now.
        if plan.num_rows > done or (plan.num_rows and not (folder / "summary.json").is_file()):
            try:
                _connect(run, key, plan.num_rows, report, mapper)
            except Interrupted as error:
                stopped = error
        elif plan.num_rows == 0:
            report.warnings.append("no name with an address was drawn (tcp_options.share, cdn, limit)")
        _write(run, key, plan, ruleset_hash(in_force), report, mapper, stopped is not None)
        if stopped is not None:
            raise stopped
    # Not before the report says that the stage is done: without segments it would connect with all again.
    finished.remove_segments(run.layout.tcp_option(key), report.rows_out, segments)


def arguments(run: Run, key: StageKey, *, inside: bool) -> list[str]:
    """Return the argument list of the engine for a key, with its files in the stage's folder.

    `inside` a namespace of its own, which has neither the vantage point's addresses nor its ports.
    """
    settings, chosen = run.settings, run.settings.tcp_options
    vantage = settings.vantage_named(key.vantage)
    folder = run.layout.stage(NAME, key)
    secret = str(run.manifest["cid_key"])
    options: process.Options = [
        ("--targets", folder / "targets.csv"),
        ("--rate", process.number(chosen.rate / key.shard.of)),
        ("--timeout", process.number(chosen.timeout_s)),
        ("--attempts", chosen.attempts),
        ("--seed", int(run.manifest["seed"]) ^ int(process.derive(secret, key, 7, NAME), 16)),
    ]
    shared = process.shared_options(
        settings,
        vantage,
        folder,
        turn=shared_limits.turn_of(settings, vantage.name, key.shard),
        clock=clock.of(run, key),
    )
    options += [(name, value) for name, value in shared if not (inside and name == "--source")]
    resume = ["--resume"] * bool(closed_segments(folder / "segments"))
    return process.argument_list("firstflight-tcp-options", options, "--feed", *resume)


def _connect(run: Run, key: StageKey, targets: int, report: StageReport, mapper: Mapper) -> None:
    """Run the engine until every target has a row in a closed segment; pause networks meanwhile."""
    folder = run.layout.stage(NAME, key)
    segments = folder / "segments"
    with files.explain_os_errors(segments):
        segments.mkdir(parents=True, exist_ok=True)
    shown = f"{key.vantage} {NAME} {key.repetition}" + key.of_shard(" shard ")
    feed = Feed()
    controller = Controller(run.settings.manners, folder, mapper.asn, feed, f"{key} {NAME}")
    with ExitStack() as stack:
        argv = _offering(run, key, report, stack)
        progress = stack.enter_context(Progress(folder, shown, targets, partial(process.limit_of, folder)))

        def watch() -> None:
            run.check_not_stopped()
            controller.update(time.time_ns())
            progress.update(controller.listed_rows)

        try:
            process.run(argv, folder / "tcp_options.log", feed, watch, ENGINE)
        finally:
            controller.update(time.time_ns())
            progress.update(controller.listed_rows)
            report.warnings += controller.warnings


def _offering(run: Run, key: StageKey, report: StageReport, stack: ExitStack) -> list[str]:
    """Return the engine's argument list inside a namespace that offers all options, or here."""
    mark = lab.MARK if lab.is_lab() else ""
    try:
        namespace = stack.enter_context(Masqueraded(0, OFFERED, mark=mark))
    except UsageError as error:
        report.warnings.append(f"{error}; SYNs offer what this machine's settings say, the rest is null")
        return arguments(run, key, inside=False)
    return namespace.inside(arguments(run, key, inside=True))


def _write(
    run: Run, key: StageKey, plan: pa.Table, ruleset: str, report: StageReport, mapper: Mapper, stopped: bool
) -> None:
    """Write tcp_option.parquet from the closed segments.

    `stopped`: write the rows that exist, if any; the next start does the rest. Raises FirstflightError if a
    target is missing without having been rejected.
    """
    folder, out = run.layout.stage(NAME, key), run.layout.tcp_option(key)
    closed = closed_segments(folder / "segments")
    if plan.num_rows == 0:
        report.rows_out = merge.write([records.load(KIND).arrow_schema().empty_table()], out, KIND)
        report.counts = {"sent": 0}
        run.add_output(report, out)
        return
    if stopped and not (closed and (folder / "summary.json").is_file()):
        return
    rows = Rows(closed, folder)
    summary = files.read_json(folder / "summary.json")
    if stopped:
        report.facts["not_connected"] = plan.num_rows - len(rows)
    else:
        reason = "rejected by the TCP engine; tcp_options.log says why"
        report.rejected = finished.rejected(rows.targets, plan.num_rows, summary, reason)
        if len(rows) + len(report.rejected) != plan.num_rows:
            raise FirstflightError(f"{key}: {plan.num_rows} targets, {len(rows)} of them have a row")
    common = provenance(run, key, report.tool_version, ruleset, out)
    report.counts = counts.of_connections(rows.blocks(len(rows), ["outcome"]))
    paused = pauses.read_pauses(folder)
    report.rows_out = merge.write(joined(_records(rows, plan, common, mapper, paused)), out, KIND)
    run.add_output(report, out)


def _records(
    rows: Rows, plan: pa.Table, common: merge.Provenance, mapper: Mapper, paused: list[pauses.Pause]
) -> Iterator[pa.Table]:
    for block in rows.blocks(len(rows)):
        asn, cdn = merge.origins(block, mapper.origin)
        columns: dict[str, Any] = merge.stage_columns(common, merge.own_rows(block, plan))
        columns |= {"asn": asn, "cdn": cdn, "network_paused_at": pauses.paused_at(block, asn, paused)}
        yield merge.in_order(KIND, block, columns)
