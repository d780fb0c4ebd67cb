"""The probe stage: choose addresses, probe them under capture, write quic_probe.parquet.

Can be cut at any moment: the prober's closed segments stay, a second start leaves out what they answer, and
the record file is written in one step at the end.
"""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from firstflight import accounting, capture, files
from firstflight.as_map import CDN_MAP_FILE, Mapper
from firstflight.errors import InputError
from firstflight.progress import Progress
from firstflight.runs import Rejected, Run, StageReport, ruleset_hash
from firstflight.settings import Vantage
from scanner import choose, merge, prober_process
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
        choose.write_targets(plan, settings.probe.port, folder / "targets.csv", probed_already=bool(begun))
        rules = rule_files(run)
        keep_rules(run, rules)
        answered = sum(merge.rows_in(path) for path in begun)
        # Without a summary it was killed at the very end: the prober, with nothing left to send, writes it.
        if plan.num_rows > answered or (plan.num_rows and not (folder / "summary.json").is_file()):
            _probe(run, settings.vantage_named(vantage), repetition, plan.num_rows, report)
        elif plan.num_rows == 0:
            report.warnings.append("no name of the list has an address; dns_answer holds the reasons")
        _write_records(run, vantage, repetition, plan, ruleset_hash(rules), report)


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


def _probe(run: Run, vantage: Vantage, repetition: int, targets: int, report: StageReport) -> None:
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
    )
    with ExitStack() as stack:
        running = (
            stack.enter_context(_capture(run, vantage, repetition)) if settings.capture.enabled else None
        )
        progress = stack.enter_context(Progress(folder, f"{vantage.name} probe {repetition}", targets))
        count = _Counter(segments)

        def watch() -> None:
            if running is not None:
                running.check()
            progress.update(count())

        prober_process.run(argv, folder / "prober.log", watch)
        progress.update(count())
    if running is not None:
        report.warnings += running.losses()


def _capture(run: Run, vantage: Vantage, repetition: int) -> capture.Capture:
    settings = run.settings
    folder = run.stage_dir("capture", vantage.name, repetition)
    ports = settings.ports_at(vantage)
    return capture.Capture(
        capture.next_path(folder),
        vantage.interface or capture.default_interface(),
        f"(udp and portrange {ports}) or icmp or icmp6",
        snaplen=settings.capture.snaplen,
        buffer_kib=settings.capture.buffer_kib,
        drain_s=settings.capture.drain_ms / 1000,
    )


class _Counter:
    """Counts the rows of closed segments, opening each segment once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen: set[Path] = set()
        self._rows = 0

    def __call__(self) -> int:
        for path in merge.closed_segments(self._folder):
            if path not in self._seen:
                self._seen.add(path)
                self._rows += merge.rows_in(path)
        return self._rows


def _rejected(segments: pa.Table, plan: pa.Table, summary: dict[str, Any]) -> list[Rejected]:
    """Lines that the prober says it rejected, if they are those without a row; prober.log has the reasons."""
    lines = sorted(set(plan["target"].to_pylist()) - set(segments["target"].to_pylist()))
    if len(lines) != summary["rejected"]:
        return []  # rows are missing for another reason: the sums will not hold
    return [Rejected(line=line, reason="rejected by the prober; prober.log says why") for line in lines]


def _note(summary: dict[str, Any], report: StageReport) -> None:
    """Take over from the prober's summary what the run's manifest should hold, and what went wrong."""
    report.facts = {name: summary[name] for name in FACTS}
    for name in ("missing_tx_stamps", "missing_rx_stamps"):
        if summary[name]:
            report.warnings.append(f"{summary[name]} packets had no kernel stamp ({name})")


def _write_records(
    run: Run, vantage: str, repetition: int, plan: pa.Table, ruleset: str, report: StageReport
) -> None:
    where = f"{vantage}, repetition {repetition}"
    out = run.quic_probe(vantage, repetition)
    if plan.num_rows == 0:
        merge.write(records.load("quic_probe").arrow_schema().empty_table(), out)
        report.rows_out = 0
        report.counts = {"sent": 0}
        run.add_output(report, out)
        return
    segments = merge.read_segments(
        merge.closed_segments(run.stage_dir("probe", vantage, repetition) / "segments")
    )
    summary = files.read_json(run.stage_dir("probe", vantage, repetition) / "summary.json")
    _note(summary, report)
    report.rejected = _rejected(segments, plan, summary)
    by_outcome = {
        str(entry["values"]): int(entry["counts"])
        for entry in pc.value_counts(segments["outcome"]).to_pylist()
    }
    sent = pc.sum(pc.greater(segments["attempts"], 0).cast(pa.uint32())).as_py()
    accounting.balance(plan.num_rows - len(report.rejected), sent, by_outcome, where)
    table = merge.merge(
        segments,
        plan,
        merge.Provenance(
            run.id,
            vantage,
            repetition,
            report.tool_version,
            ruleset,
            run.name_of(out),
            host=socket.gethostname(),
            worker=os.environ.get(WORKER_VARIABLE),
        ),
        origin=Mapper(run.as_data).origin,
        captures=capture.records(run.stage_dir("capture", vantage, repetition)),
        capture_name=_capture_name(run, vantage, repetition),
        earlier=[p for n in range(1, repetition) if (p := run.quic_probe(vantage, n)).is_file()],
    )
    merge.write(table, out)
    report.rows_out = table.num_rows
    report.counts = {"sent": sent, **dict(sorted(by_outcome.items()))}
    report.warnings = list(dict.fromkeys(report.warnings))
    run.add_output(report, out)


def _capture_name(run: Run, vantage: str, repetition: int) -> Callable[[str], str]:
    folder = run.stage_dir("capture", vantage, repetition)
    return lambda name: run.name_of(folder / name)
