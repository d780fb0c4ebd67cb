"""The probe stage: choose addresses, probe them under capture, write quic_probe.parquet.

Can be cut at any moment: the prober's closed segments stay, a second start leaves out what they answer, and
the record file is written in one step at the end. A stage that is stopped in order writes the rows that there
are.
"""

from __future__ import annotations

import os
import shutil
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from firstflight import accounting, capture, clock, files, ledger
from firstflight.as_map import CDN_MAP_FILE, Mapper
from firstflight.errors import InputError, Interrupted
from firstflight.progress import Progress
from firstflight.provenance import ruleset_hash
from firstflight.runs import Run
from firstflight.settings import Vantage
from firstflight.stage_report import Rejected, StageReport
from scanner import choose, control, merge, pauses, prober_process, slot_records
from scanner.feed import FIRST_SLOT, Feed
from scanner.guard import Guard
from schemas import records

# From the prober's summary into the manifest.
FACTS = (
    "template_sha256",
    "answer_window_ms",
    "settle_ms",
    "initial_size_ipv4",
    "initial_size_ipv6",
    "rate",
    "per_address_rate",
    "per_prefix_rate",
    "max_new_per_second",
    "seed",
)

# Set by a scheduled task: the name of the worker that runs it.
WORKER_VARIABLE = "FIRSTFLIGHT_WORKER"


def stage(run: Run, vantage: str, repetition: int) -> None:
    """Probe the addresses that the resolve stage found for `vantage` in `repetition`.

    Reads dns_answer.parquet and as_data/; writes into the probe and capture folders (docs/architecture.md).
    Raises FirstflightError with one sentence; a Ctrl-C ends in order.
    """
    settings = run.settings
    with run.stage("probe", vantage, repetition) as report:
        folder = run.stage_dir("probe", vantage, repetition)
        dns_answer = run.dns_answer(vantage, repetition)
        if not dns_answer.is_file():
            raise InputError(f"there is no {dns_answer}: run the resolve stage of {vantage} first")
        plan = choose.choose(dns_answer, settings.probe.families, settings.probe.all_addresses)
        report.rows_in = plan.num_rows
        segments = folder / "segments"
        begun = merge.closed_segments(segments)
        mapper = Mapper(run.as_data)
        choose.write_targets(
            plan,
            settings.probe.port,
            folder / "targets.csv",
            lambda ip: mapper.origin(ip).asn,
            probed_already=bool(begun),
        )
        rules = rule_files(run)
        keep_rules(run, rules)
        answered = sum(1 for path in begun for target in merge.targets_in(path) if target < FIRST_SLOT)
        stopped: Interrupted | None = None
        # Without a summary it was killed at the very end: the prober, with nothing left to send, writes it.
        if plan.num_rows > answered or (plan.num_rows and not (folder / "summary.json").is_file()):
            try:
                _probe(run, settings.vantage_named(vantage), repetition, plan.num_rows, report, mapper)
            except Interrupted as error:
                stopped = error
        elif plan.num_rows == 0:
            report.warnings.append("no name of the list has an address; dns_answer holds the reasons")
        _write_records(
            run, vantage, repetition, plan, ruleset_hash(rules), report, mapper, stopped is not None
        )
        if stopped is not None:
            raise stopped


def rule_files(run: Run) -> list[Path]:
    """The rule files in force, in the order in which they are hashed: CDN map, block lists, opt-out lists."""
    probe = run.settings.probe
    found = [run.as_data / CDN_MAP_FILE, *probe.blocklist, *probe.optout]
    for path in found:
        if not path.is_file():
            raise InputError(f"there is no {path}; nothing was sent")
    return found


def keep_rules(run: Run, rules: Sequence[Path]) -> None:
    """Keep a copy of each rule file with the run, named by its content, so that a `ruleset` can be read."""
    for path in rules:
        kept = run.path / "rules" / f"{files.sha256_of(path)[:12]}-{path.name}"
        if not kept.exists():
            with files.replacing(kept) as temporary:
                shutil.copyfile(path, temporary)


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
    argv = prober_process.arguments(
        settings,
        vantage,
        folder,
        seed=(int(manifest["seed"]) ^ int(prober_process.derive(key, vantage.name, repetition, 7), 16)),
        cid_key=prober_process.derive(key, vantage.name, repetition, 16),
        resume=bool(merge.closed_segments(segments)),
        turn=ledger.turn_of(settings, vantage.name),
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
            prober_process.run(argv, folder / "prober.log", feed, watch)
        finally:
            looking.look(time.time_ns())
            progress.update(looking.rows)
            report.warnings += looking.warnings
    if running is not None:
        report.warnings += running.losses()


def capture_beside(
    run: Run, vantage: Vantage, repetition: int, ports: str | None = None
) -> AbstractContextManager[capture.Capture | None]:
    """The capture beside the probes of a vantage point and repetition; None if the settings want none."""
    settings = run.settings
    if not settings.capture.enabled:
        return nullcontext()
    folder = run.stage_dir("capture", vantage.name, repetition)
    ports = ports or settings.ports_at(vantage)
    return capture.Capture(
        capture.next_path(folder),
        vantage.interface or capture.default_interface(),
        f"(udp and portrange {ports}) or icmp or icmp6",
        snaplen=settings.capture.snaplen,
        buffer_kib=settings.capture.buffer_kib,
        drain_s=settings.capture.drain_ms / 1000,
    )


def _listed(segments: pa.Table) -> pa.Table:
    """The rows of the list's targets, without those of control names."""
    return segments.filter(pc.less(segments["target"], pa.scalar(FIRST_SLOT, pa.uint32())))


def _rejected(segments: pa.Table, plan: pa.Table, summary: dict[str, Any]) -> list[Rejected]:
    """Lines that the prober says it rejected, if they are those without a row; prober.log has the reasons."""
    lines = sorted(set(plan["target"].to_pylist()) - set(segments["target"].to_pylist()))
    if len(lines) != summary["rejected"]:
        return []  # rows are missing for another reason: the sums will not hold
    return [Rejected(line=line, reason="rejected by the prober; prober.log says why") for line in lines]


def note(summary: dict[str, Any], report: StageReport) -> None:
    """Take over from the prober's summary what the run's manifest should hold, and what went wrong."""
    report.facts = {name: summary[name] for name in FACTS}
    for name in ("missing_tx_stamps", "missing_rx_stamps"):
        if summary[name]:
            report.warnings.append(f"{summary[name]} packets had no kernel stamp ({name})")


def _write_records(
    run: Run,
    vantage: str,
    repetition: int,
    plan: pa.Table,
    ruleset: str,
    report: StageReport,
    mapper: Mapper,
    stopped: bool,
) -> None:
    """Write quic_probe.parquet from the closed segments, and watch_slot.parquet of control names.

    Stopped in order, the rows that there are, if any; --resume probes the rest. Raises FirstflightError if
    the sums of definitions.md do not hold.
    """
    out = run.quic_probe(vantage, repetition)
    if plan.num_rows == 0:
        merge.write(records.load("quic_probe").arrow_schema().empty_table(), out)
        report.rows_out = 0
        report.counts = {"sent": 0}
        run.add_output(report, out)
        return
    folder = run.stage_dir("probe", vantage, repetition)
    closed = merge.closed_segments(folder / "segments")
    if stopped and not (closed and (folder / "summary.json").is_file()):
        return
    everything = merge.read_segments(closed)
    segments = _listed(everything)
    summary = files.read_json(folder / "summary.json")
    note(summary, report)
    if stopped:
        report.facts["not_probed"] = plan.num_rows - segments.num_rows
    else:
        report.rejected = _rejected(segments, plan, summary)
    _count(segments, plan.num_rows, report, f"{vantage}, repetition {repetition}")
    table = merge.merge(
        segments,
        plan,
        provenance(run, vantage, repetition, report.tool_version, ruleset, out),
        origin=mapper.origin,
        pauses=pauses.read_pauses(folder),
        captures=capture.records(run.stage_dir("capture", vantage, repetition)),
        capture_name=capture_name(run, vantage, repetition),
        earlier=[p for n in range(1, repetition) if (p := run.quic_probe(vantage, n)).is_file()],
    )
    merge.write(table, out)
    report.rows_out = table.num_rows
    report.warnings = list(dict.fromkeys(report.warnings))
    run.add_output(report, out)
    slots = control.write_slots(
        folder, slot_records.of_segments(everything), slot_columns(run, vantage, repetition, report), mapper
    )
    if slots is not None:
        run.add_output(report, slots)


def _count(segments: pa.Table, targets: int, report: StageReport, where: str) -> None:
    """Count outcomes into the report; FirstflightError if the sums of definitions.md do not hold."""
    by_outcome = {
        str(entry["values"]): int(entry["counts"])
        for entry in pc.value_counts(segments["outcome"]).to_pylist()
    }
    sent = pc.sum(pc.greater(segments["attempts"], 0).cast(pa.uint32())).as_py()
    not_probed = int(report.facts.get("not_probed") or 0)
    accounting.balance(targets - len(report.rejected) - not_probed, sent, by_outcome, where)
    report.counts = {"sent": sent, **dict(sorted(by_outcome.items()))}


def provenance(
    run: Run, vantage: str, repetition: int, tool_version: str, ruleset: str, out: Path
) -> merge.Provenance:
    """What is the same in all rows of one stage."""
    offset = clock.of(run, vantage, repetition)
    return merge.Provenance(
        run.id,
        vantage,
        repetition,
        tool_version,
        ruleset,
        run.name_of(out),
        None if offset is None else offset.offset_us,
        host=socket.gethostname(),
        worker=os.environ.get(WORKER_VARIABLE),
    )


def slot_columns(run: Run, vantage: str, repetition: int, report: StageReport) -> dict[str, Any]:
    """The columns that are the same in all watch_slot records of one stage."""
    offset = clock.of(run, vantage, repetition)
    return {
        "run": run.id,
        "vantage": vantage,
        "repetition": repetition,
        "clock_offset_us": None if offset is None else offset.offset_us,
        "tool_version": report.tool_version,
    }


def capture_name(run: Run, vantage: str, repetition: int) -> Callable[[str], str]:
    """How rows name a capture."""
    folder = run.stage_dir("capture", vantage, repetition)
    return lambda name: run.name_of(folder / name)
