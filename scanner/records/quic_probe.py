"""Writes the records and the report of the probe stage from the prober's closed segments."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from firstflight import capture
from firstflight.as_map import Mapper
from firstflight.errors import FirstflightError
from firstflight.layout import StageKey
from firstflight.run import accounting
from firstflight.run.report import Rejected, StageReport
from firstflight.run.run import Run
from firstflight.system import files
from scanner.backoff import pauses
from scanner.driver.feed import FIRST_SLOT
from scanner.driver.segments import closed_segments, read_segments
from scanner.planned import control
from scanner.planned import records as planned_records
from scanner.records import counts, merge
from scanner.records.provenance import capture_name, provenance, slot_columns
from schemas import records

# Values of the prober's summary that the manifest holds.
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


def write(
    run: Run,
    key: StageKey,
    plan: pa.Table,
    ruleset: str,
    report: StageReport,
    mapper: Mapper,
    stopped: bool,
) -> None:
    """Write quic_probe.parquet from the closed segments, and watch_slot.parquet of control names.

    `stopped`: write the rows that exist, if any; --resume probes the rest. Raises FirstflightError if the
    sums of definitions.md do not hold.
    """
    out = run.layout.quic_probe(key)
    if plan.num_rows == 0:
        merge.write(records.load("quic_probe").arrow_schema().empty_table(), out)
        report.rows_out = 0
        report.counts = {"sent": 0}
        run.add_output(report, out)
        return
    folder = run.layout.stage("probe", key)
    closed = closed_segments(folder / "segments")
    if stopped and not (closed and (folder / "summary.json").is_file()):
        return
    everything = read_segments(closed)
    segments = _listed(everything)
    summary = files.read_json(folder / "summary.json")
    copy_summary(summary, report)
    if stopped:
        report.facts["not_probed"] = plan.num_rows - segments.num_rows
    else:
        report.rejected = _rejected(segments, plan, summary)
    _count(segments, plan.num_rows, report, str(key))
    table = merge.merge(
        segments,
        plan,
        provenance(run, key, report.tool_version, ruleset, out),
        origin=mapper.origin,
        pauses=pauses.read_pauses(folder),
        captures=capture.records(run.layout.stage("capture", key)),
        capture_name=capture_name(run, key),
        earlier=_earlier(run, key),
    )
    merge.write(table, out)
    report.rows_out = table.num_rows
    report.warnings = list(dict.fromkeys(report.warnings))
    run.add_output(report, out)
    common = slot_columns(run, key, report)
    slots = control.write_slots(folder, planned_records.of_segments(everything), common, mapper)
    if slots is not None:
        run.add_output(report, slots)


def remove_segments(run: Run, key: StageKey, rows: int | None) -> None:
    """Remove the segments of a probe stage that is done, if its record file on disk has `rows` rows.

    FirstflightError if it has not; the segments are kept then.
    """
    out = run.layout.quic_probe(key)
    try:
        found = pq.ParquetFile(out).metadata.num_rows
    except (OSError, pa.ArrowException) as error:
        raise FirstflightError(f"cannot read {out}, the segments are kept: {error}") from error
    if found != rows:
        raise FirstflightError(f"{out} has {found} rows instead of {rows}: the segments are kept")
    segments = run.layout.stage("probe", key) / "segments"
    with files.explain_os_errors(segments), suppress(FileNotFoundError):
        shutil.rmtree(segments)


def copy_summary(summary: dict[str, Any], report: StageReport) -> None:
    """Copy FACTS and warnings from the prober's summary into the report."""
    report.facts = {name: summary[name] for name in FACTS}
    for name in ("missing_tx_stamps", "missing_rx_stamps"):
        if summary[name]:
            report.warnings.append(f"{summary[name]} packets had no kernel stamp ({name})")


def _earlier(run: Run, key: StageKey) -> list[Path]:
    """Return the record files of the vantage point's earlier repetitions."""
    paths = [run.layout.quic_probe(run.key(key.vantage, n)) for n in range(1, key.repetition)]
    return [path for path in paths if path.is_file()]


def _listed(segments: pa.Table) -> pa.Table:
    """Return the rows of the listed targets, without those of control names."""
    return segments.filter(pc.less(segments["target"], pa.scalar(FIRST_SLOT, pa.uint32())))


def _rejected(segments: pa.Table, plan: pa.Table, summary: dict[str, Any]) -> list[Rejected]:
    """Return the lines without a row, if the prober rejected as many; prober.log has the reasons."""
    has_row = pc.is_in(plan["target"], value_set=segments["target"].combine_chunks())
    lines = plan["target"].filter(pc.invert(has_row))
    if len(lines) != summary["rejected"]:
        return []  # rows are missing for another reason: the sums will not hold
    reason = "rejected by the prober; prober.log says why"
    return [Rejected(line=line, reason=reason) for line in lines.to_pylist()]


def _count(segments: pa.Table, targets: int, report: StageReport, where: str) -> None:
    """Set the report's counts by outcome; FirstflightError if the sums of definitions.md do not hold."""
    found = counts.of(segments)
    not_probed = int(report.facts.get("not_probed") or 0)
    accounting.balance(targets - len(report.rejected) - not_probed, found.sent, found.by_outcome, where)
    report.counts = found.for_report()
