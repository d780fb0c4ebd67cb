"""The handshake stage: draw names, complete a handshake with each, write what was seen.

Runs after the probes of its key and only if [handshake] enables it. It keeps the limits, lists and turns of
the probe stage, pauses networks as that does, and like that survives being killed at any moment: closed
segments are kept, the next start leaves out the targets in them. It takes no capture.
"""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

from firstflight.as_map import Mapper
from firstflight.cdn import rules as cdn_rules
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
from scanner.driver import choose, draw, process, rules
from scanner.driver.feed import Feed
from scanner.driver.segments import closed_segments, read_segment
from scanner.handshake import records
from scanner.records import finished

NAME = "handshake"
# The CDN rules in force, as the engine reads them.
RULES_FILE = "cdn_rules.json"
ENGINE = process.Engine("handshake engine", "what was done is kept, and --resume continues")


def stage(run: Run, key: StageKey) -> None:
    """Connect with the drawn share of the addresses that the resolve stage found for `key`.

    Reads dns_answer.parquet and as_data/; writes quic_handshake.parquet, certificate.parquet and
    http3_response.parquet into the stage's folder. Raises FirstflightError, UsageError if the settings do not
    enable it; SIGINT shuts down gracefully.
    """
    settings = run.settings
    if not settings.handshake.enabled:
        raise UsageError("handshake.enabled is false in the settings of this run: nothing was sent")
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
            settings.probe.port,
            folder / "targets.csv",
            mapper.asn,
            probed_already=bool(earlier),
            done="connected with",
        )
        in_force = rules.rule_files(run, cdn_by_answer=True)
        rules.copy_into_run(run, in_force)
        done = sum(map(_rows, earlier))
        stopped: Interrupted | None = None
        # Killed before the summary was written: the engine, with nothing left to send, writes it now.
        if plan.num_rows > done or (plan.num_rows and not (folder / "summary.json").is_file()):
            try:
                _connect(run, key, plan.num_rows, report, mapper)
            except Interrupted as error:
                stopped = error
        elif plan.num_rows == 0:
            report.warnings.append("no name with an address was drawn (handshake.share, cdn, limit)")
        records.write(run, key, plan, ruleset_hash(in_force), report, mapper, stopped is not None)
        if stopped is not None:
            raise stopped
    # Not before the report says that the stage is done: without segments it would connect with all again.
    finished.remove_segments(run.layout.handshakes(key), report.rows_out, segments)


def arguments(run: Run, key: StageKey) -> list[str]:
    """Return the argument list of `firstflight-handshake` for a key, with its files in the stage's folder."""
    settings, manifest = run.settings, run.manifest
    handshake = settings.handshake
    vantage = settings.vantage_named(key.vantage)
    folder = run.layout.stage(NAME, key)
    secret = str(manifest["cid_key"])
    options: process.Options = [
        ("--targets", folder / "targets.csv"),
        ("--rate", process.number(handshake.rate / key.shard.of)),
        ("--timeout", process.number(handshake.timeout_s)),
        ("--ports", settings.ports_at(vantage, shard=key.shard)),
        ("--seed", int(manifest["seed"]) ^ int(process.derive(secret, key, 7, NAME), 16)),
        ("--cid-key", process.derive(secret, key, 16, NAME)),
        ("--verify", handshake.verify),
        ("--key-share", handshake.key_share),
        ("--sni", handshake.sni),
        ("--alpn", ",".join(handshake.alpn)),
        ("--path", handshake.path),
        ("--cdn-rules", folder / RULES_FILE),
    ]
    if handshake.roots is not None:
        options.append(("--roots", handshake.roots))
    options += process.shared_options(
        settings,
        vantage,
        folder,
        turn=shared_limits.turn_of(settings, vantage.name, key.shard),
        clock=clock.of(run, key),
    )
    resume = ["--resume"] * bool(closed_segments(folder / "segments"))
    second = ["--second"] * handshake.second
    return process.argument_list("firstflight-handshake", options, "--feed", *resume, *second)


def _connect(run: Run, key: StageKey, targets: int, report: StageReport, mapper: Mapper) -> None:
    """Run the engine until every target has a row in a closed segment; pause networks meanwhile."""
    folder = run.layout.stage(NAME, key)
    segments = folder / "segments"
    with files.explain_os_errors(segments):
        segments.mkdir(parents=True, exist_ok=True)
    rules_in_force = cdn_rules.load(cdn_rules.in_force(run.layout.as_data))
    files.write_text(folder / RULES_FILE, cdn_rules.as_json(rules_in_force))
    argv = arguments(run, key)
    shown = f"{key.vantage} {NAME} {key.repetition}" + key.of_shard(" shard ")
    feed = Feed()
    controller = Controller(run.settings.manners, folder, mapper.asn, feed, f"{key} {NAME}")
    with Progress(folder, shown, targets, partial(process.limit_of, folder)) as progress:

        def watch() -> None:
            run.check_not_stopped()
            controller.update(time.time_ns())
            progress.update(controller.listed_rows)

        try:
            process.run(argv, folder / "handshake.log", feed, watch, ENGINE)
        finally:
            controller.update(time.time_ns())
            progress.update(controller.listed_rows)
            report.warnings += controller.warnings


def _rows(segment: Path) -> int:
    return int(read_segment(segment).num_rows)
