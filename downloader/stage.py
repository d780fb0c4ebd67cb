"""The download stage: files of the crawl or from a list, with each option set, one download at a time.

A kill at any moment loses no results. answers.jsonl keeps finished downloads. An interrupted run is never
resumed: its remaining downloads are `skipped`. The next start continues with the other targets.
"""

from __future__ import annotations

import os
import shutil
import socket
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from downloader import downloads, option_sets
from downloader.files import draw, resolving
from downloader.files.survey import Survey
from downloader.files.targets import Target
from downloader.option_sets import OptionSet
from downloader.results import acks, outcome, rows
from downloader.shared_limits import DownloadTurn
from downloader.transfers import http3, session, worker
from downloader.transfers.session import Limits
from firstflight import capture_files
from firstflight.as_map import CDN_MAP_FILE, OTHERS, Mapper
from firstflight.egress.permitted import Permitted
from firstflight.errors import FirstflightError, Interrupted, UsageError
from firstflight.layout import StageKey
from firstflight.run import clock
from firstflight.run.provenance import ruleset_hash
from firstflight.run.report import StageReport, UnusedLine
from firstflight.run.run import Run
from firstflight.sampling import number
from firstflight.system import files
from firstflight.system.noted_signals import noted_signals
from firstflight.system.reporting.progress import Progress
from schemas import records

NAME, KIND = "download", "download"
_BATCH = 1000
_WORKER_VARIABLE = "FIRSTFLIGHT_WORKER"


def stage(run: Run, key: StageKey) -> None:
    """Download for `key`. Write download.parquet, with a row per planned download, and quic_ack.parquet.

    Raise UsageError if the settings do not enable the stage, or if a namespace or client cannot be started.
    Raise InputError without a list of files. Raise Interrupted, after writing the rows of finished downloads,
    on a signal or the stop file.
    """
    settings = run.settings.download
    if not settings.enabled:
        raise UsageError("download.enabled is false in the settings of this run: nothing was sent")
    if not key.shard.is_whole:
        # A vantage point does one download at a time: its shards would disturb each other.
        raise UsageError(
            f"{key.vantage} has {key.shard.count} shards, and downloads cannot be divided: use settings with "
            "shards = 1 for them; nothing was sent"
        )
    with run.stage(NAME, key) as report:
        mapper = Mapper(run.layout.as_data)
        folder = run.layout.stage(NAME, key)
        sets = option_sets.chosen(",".join(settings.sets))
        plan = _plan(run, key, mapper, sets, report)
        probe = run.settings.probe
        permitted = Permitted(probe.blocklist, probe.optout, [str(net) for net in probe.allow_net])
        downloads.check(plan, permitted, run.settings.campaign.contact)
        report.rows_in = sum(len(option_sets.of_target_set(sets, target.target_set)) for target in plan)
        # The order differs between repetitions and between vantage points.
        seed = number(int(run.manifest["seed"]), f"{key.vantage} {key.repetition}") >> 1
        report.facts |= {"sets": ",".join(option_set.name for option_set in sets), "seed": seed}
        stopped: Interrupted | None = None
        try:
            _download(run, key, plan, sets, folder, seed)
        except Interrupted as error:
            stopped = error
        rules = [run.layout.as_data / CDN_MAP_FILE, *probe.blocklist, *probe.optout]
        report.warnings += capture_files.losses(folder)
        _write(run, key, folder, mapper, ruleset_hash(rules), report)
        if stopped is not None:
            raise stopped
        if report.rows_out != report.rows_in:
            raise FirstflightError(
                f"{key}: {report.rows_out} rows of {report.rows_in} downloads; run the stage with --again"
            )


def _plan(
    run: Run, key: StageKey, mapper: Mapper, sets: Sequence[OptionSet], report: StageReport
) -> list[Target]:
    """Return the sampled targets. Report the size of each group."""
    settings = run.settings.download
    if settings.targets is None:
        listed, rejected = draw.of_crawl(run.layout.crawl("download_file"), run.layout.dns_answer(key))
    else:
        listed, rejected = draw.of_list(settings.targets)
    report.rejected = [UnusedLine(line=entry.line, reason=entry.reason) for entry in rejected]
    seed = int(run.manifest["seed"])

    def cdn_of(ip: str) -> str | None:
        return mapper.origin(ip).cdn

    if settings.draw == "survey":
        layout = run.layout
        survey = Survey(layout.tcp_option(key), layout.handshakes(key), layout.crawl("download_file"))
        quic = settings.quic if http3.first_quic(sets) else 0
        chosen, groups = draw.of_survey(listed, survey, cdn_of, seed, settings.per_cdn, settings.others, quic)
        # The QUIC target set has the same names with and without TCP sets.
        if not option_sets.compares_tcp(sets):
            chosen = [target for target in chosen if target.target_set != option_sets.TCP]
        report.facts["files_without_options"] = len(listed) - groups.total()
        report.facts |= {f"targets_{name}": n for name, n in _target_sets(chosen).items()}
    else:
        chosen, groups = draw.sampled_targets(listed, cdn_of, seed, settings.per_cdn, settings.others)
    has_groups = settings.draw == "names" or option_sets.compares_tcp(sets)
    for cdn, count in sorted(groups.items()):
        report.facts[f"files_{cdn}"] = count
        drawn_count = settings.others if cdn == OTHERS else settings.per_cdn
        if has_groups and drawn_count is not None and count < drawn_count:
            report.warnings.append(f"{cdn} has {count} files, fewer than the {drawn_count} to draw")
    if not chosen:
        report.warnings.append("there is no file to download")
    return chosen


def _target_sets(targets: Sequence[Target]) -> Counter[str]:
    return Counter(target.target_set for target in targets if target.target_set)


def _download(
    run: Run, key: StageKey, plan: Sequence[Target], sets: Sequence[OptionSet], folder: Path, seed: int
) -> None:
    """Do the remaining downloads of the plan, each target in its turn."""
    settings, probe = run.settings.download, run.settings.probe
    limits = Limits(
        timeout_s=settings.timeout_s,
        max_bytes=settings.max_bytes,
        pause_s=settings.pause_s,
        fixed_order=settings.fixed_order,
        contact=run.settings.campaign.contact,
        roots=settings.roots,
    )
    lists_of = [f"blocklist={path}" for path in probe.blocklist]
    lists_of += [f"optout={path}" for path in probe.optout]
    lists_of += [f"allow-net={network}" for network in probe.allow_net]
    entries = session.read_answers(folder)
    missing, remaining = session.unfinished(entries, plan, sets, seed, limits.fixed_order)
    with files.explain_os_errors(folder):
        _drop_cut_line(folder / session.ANSWERS)
        with (folder / session.ANSWERS).open("ab") as file:
            file.writelines(session.as_line(entry) for entry in missing)
        # Needed even if no target remains: then no session does it.
        capture_files.keep_parts(folder, "*")
    if not remaining:
        return
    turn = _turn(run, key)
    waits = False

    def limit() -> str:
        return "turns of vantage points" if waits else "one download at a time"

    title = f"{key.vantage} {NAME}"
    with noted_signals() as signalled, Progress(folder, title, len(plan), limit) as progress:
        progress.update(len(plan) - len(remaining))

        def watch() -> None:
            run.check_not_stopped()
            if signalled():
                raise worker.stopped("a signal")

        again = (
            resolving.ResolveEngine(run.settings, folder, watch).again if settings.resolves_again else None
        )

        def next_target() -> Target | float:
            nonlocal waits
            found = turn.take(remaining, time.time, again)
            waits = not isinstance(found, Target)
            return found

        downloads.run(
            len(remaining),
            next_target,
            sets,
            folder,
            lists_of,
            limits,
            seed,
            watch,
            lambda _: progress.update(len(plan) - len(remaining)),
        )


def _turn(run: Run, key: StageKey) -> DownloadTurn:
    settings = run.settings
    pause_s = settings.download.run_pause_s + settings.campaign.clock_slack_s
    index = settings.index_of(key.vantage) if settings.takes_turns else 0
    return DownloadTurn(index, settings.shared_by, pause_s)


def _drop_cut_line(path: Path) -> None:
    """Remove a last line that a kill truncated."""
    if path.is_file():
        content = path.read_bytes()
        complete = content[: content.rfind(b"\n") + 1]
        if complete != content:
            with path.open("r+b") as file:
                file.truncate(len(complete))


def _write(run: Run, key: StageKey, folder: Path, mapper: Mapper, ruleset: str, report: StageReport) -> None:
    """Write download.parquet, and quic_ack.parquet if there are QUIC sets, from the files in the folder."""
    for left_over in folder.glob("native.*"):  # left by a stage that was killed while it read captures
        shutil.rmtree(left_over, ignore_errors=True)
    offset = clock.of(run, key)
    common = {
        **key.columns(),
        "tool_version": report.tool_version,
        "ruleset": ruleset,
        "host": socket.gethostname(),
        "worker": os.environ.get(_WORKER_VARIABLE),
        "clock_offset_us": None if offset is None else offset.offset_us,
    }
    schema = records.load(KIND).arrow_schema()
    out = run.layout.downloads(key)
    counts: Counter[str] = Counter()
    again: Counter[str] = Counter()
    moved = 0

    def filled() -> Iterator[dict[str, Any]]:
        nonlocal moved
        for row in downloads.read(folder):
            counts[row["outcome"]] += 1
            if row["position"] == 0 and row["resolved_status"] is not None:
                again[row["resolved_status"]] += 1
                moved += row["ip"] != row["drawn_ip"]
            origin = mapper.origin(row["ip"]) if row["ip"] else None
            capture = row["capture_file"]
            yield (
                row
                | common
                | {
                    "iteration": key.repetition,
                    "asn": None if origin is None else origin.asn,
                    "cdn": None if origin is None else origin.cdn,
                    "capture_file": None if capture is None else run.layout.name_of(folder / capture),
                }
            )

    with files.replacing(out) as part, pq.ParquetWriter(part, schema, compression="zstd") as writer:
        filled_rows = filled()
        while batch := list(islice(filled_rows, _BATCH)):
            writer.write_table(pa.Table.from_pylist(batch, schema=schema))
    report.counts = {name: counts[name] for name in outcome.OUTCOMES if counts[name]}
    report.rows_out = counts.total()
    if again:
        report.facts |= {"resolved_again": again.total(), "moved": moved}
        if failed := again.total() - sum(again[status] for status in resolving.ANSWERS):
            report.warnings.append(
                f"{failed} names could not be resolved again: their downloads used the address in the draw"
            )
    run.add_output(report, out)
    over_quic = acks.captures_of_quic(rows.captures(folder))
    stamps = {**key.columns(), "tool_version": report.tool_version}
    acks.write(over_quic, rows.key_logs(folder), run.layout.quic_ack(key), run.layout.name_of, stamps)
    if over_quic:
        run.add_output(report, run.layout.quic_ack(key))
