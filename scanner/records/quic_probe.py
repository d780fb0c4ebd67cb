"""Writes the records and the report of the probe stage from the prober's closed segments."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from firstflight import capture_files
from firstflight.as_map import Mapper
from firstflight.layout import StageKey
from firstflight.run import accounting
from firstflight.run.report import StageReport
from firstflight.run.run import Run
from scanner.backoff import pauses
from scanner.driver import summaries
from scanner.driver.feed import FIRST_SLOT
from scanner.driver.rows import Rows
from scanner.driver.segments import closed_segments
from scanner.planned import control
from scanner.planned import records as planned_records
from scanner.records import counts, finished, merge
from scanner.records.last_probe import last_probes
from scanner.records.provenance import capture_name, provenance, slot_columns
from schemas import records

# Values of the prober's summary to copy to the manifest.
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

    `stopped`: write the existing rows, if any; --resume probes the rest. Raise FirstflightError if the totals
    of definitions.md do not match.
    """
    out = run.layout.quic_probe(key)
    if plan.num_rows == 0:
        merge.write([records.load("quic_probe").arrow_schema().empty_table()], out)
        report.rows_out = 0
        report.counts = {"sent": 0}
        run.add_output(report, out)
        return
    folder = run.layout.stage("probe", key)
    closed = closed_segments(folder / "segments")
    if stopped and not (closed and summaries.exist(folder)):
        return
    rows = Rows(closed)
    # The rows of control names follow the rows of listed targets.
    listed = int(np.searchsorted(rows.targets, FIRST_SLOT))
    summary = summaries.read(folder)
    copy_summary(summary, report)
    if stopped:
        report.facts["not_probed"] = plan.num_rows - listed
    else:
        reason = "rejected by the prober; prober.log says why"
        report.rejected = finished.rejected(rows.targets[:listed], plan.num_rows, summary, reason)
    _count(counts.of(rows.blocks(listed, ["outcome", "attempts"])), plan.num_rows, report, str(key))
    common = provenance(run, key, report.tool_version, ruleset, out)
    report.rows_out = merge.write(_merged(run, key, rows, listed, plan, common, mapper), out)
    report.warnings = list(dict.fromkeys(report.warnings))
    run.add_output(report, out)
    columns = slot_columns(run, key, report)
    probed = planned_records.of_segments(rows.slice(listed, len(rows)))
    slots = control.write_slots(folder, probed, columns, mapper)
    if slots is not None:
        run.add_output(report, slots)


def _merged(
    run: Run,
    key: StageKey,
    rows: Rows,
    listed: int,
    plan: pa.Table,
    common: merge.StageProvenance,
    mapper: Mapper,
) -> Iterator[pa.Table]:
    """Yield the records of the first `listed` rows, in tables of at most BATCH rows."""
    folder = run.layout.stage("probe", key)
    paused = pauses.read_pauses(folder)
    captures = capture_files.records(run.layout.stage("capture", key))
    if earlier := _earlier(run, key):
        plan = plan.append_column(merge.LAST_PROBE, last_probes(plan, earlier))
    for block in rows.blocks(listed):
        yield merge.merge(
            block,
            plan,
            common,
            mapper=mapper,
            pauses=paused,
            captures=captures,
            capture_name=capture_name(run, key),
        )


def copy_summary(summary: dict[str, Any], report: StageReport) -> None:
    """Copy FACTS and warnings from the prober's summary to the report."""
    report.facts = {name: summary[name] for name in FACTS}
    for name in ("missing_tx_stamps", "missing_rx_stamps"):
        if summary[name]:
            report.warnings.append(f"{summary[name]} packets had no kernel stamp ({name})")


def _earlier(run: Run, key: StageKey) -> list[Path]:
    """Return the record files of the vantage point's earlier repetitions."""
    paths = map(run.layout.quic_probe, key.earlier())
    return [path for path in paths if path.is_file()]


def _count(result: counts.OutcomeCounts, targets: int, report: StageReport, label: str) -> None:
    """Set the report's counts by outcome. FirstflightError if the totals of definitions.md do not match."""
    not_probed = int(report.facts.get("not_probed") or 0)
    accounting.balance(targets - len(report.rejected) - not_probed, result.sent, result.by_outcome, label)
    report.counts = result.for_report()
