"""Writes the records for a watch period: watch_slot for each slot, quic_probe for each probed slot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from firstflight.capture_files import records as captures_in
from firstflight.errors import UsageError
from firstflight.run import accounting
from scanner.backoff import pauses
from scanner.driver import choose, summaries
from scanner.driver.feed import FIRST_SLOT
from scanner.driver.rows import Rows
from scanner.driver.segments import closed_segments
from scanner.planned import records as planned_records
from scanner.records import counts, finished, merge, provenance, quic_probe
from scanner.resolver.configured import configured_resolver
from scanner.resolver.names import Name
from scanner.watch.period import WatchPeriod

# The list_id of owned names that no list contains.
OWNED_LIST_ID = "owned"


def write(period: WatchPeriod, ruleset: str, unfed_reason: str) -> int | None:
    """Write watch_slot.parquet and quic_probe.parquet, and set the counts in the period's report.

    Return the number of rows of quic_probe.parquet; `None` without probes, when there is no such file.

    `ruleset`: the hash of the rule files in force. `unfed_reason`: why slots never became due. Raise
    UsageError if earlier log entries do not match the plan, and FirstflightError if the totals do not match.
    """
    run, report, folder = period.run, period.report, period.folder
    closed = closed_segments(folder / "segments")
    rows: pa.Table | None = None
    if closed:
        closed_rows = Rows(closed)
        rows = closed_rows.slice(0, len(closed_rows))
    fed = {entry["slot"]: entry for entry in planned_records.feeder_log(folder)}
    unfed = planned_records.planned(probe for probe in period.probes if probe.number not in fed)
    table = planned_records.build(
        folder,
        sorted([*fed.values(), *unfed], key=lambda entry: int(entry["slot"])),
        {} if rows is None else planned_records.of_segments(rows),
        provenance.slot_columns(run, period.key, report),
        period.mapper.origin,
        unfed_reason,
    )
    if table.num_rows != len(period.probes):
        raise UsageError(
            f"{folder} holds {table.num_rows} slots and the period has {len(period.probes)}: the settings or "
            "the list have changed since it began; run the stage with --again"
        )
    out = folder / "watch_slot.parquet"
    planned_records.write(table, out)
    run.add_output(report, out)
    counts = planned_records.counts(table)
    if rows is not None:
        counts |= _write_probes(period, rows, ruleset)
    report.rows_out = table.num_rows
    report.counts = counts
    if summaries.exist(folder):
        quic_probe.copy_summary(summaries.read(folder), report)
    report.warnings = list(dict.fromkeys(report.warnings))
    if (folder / "dns_answer.parquet").is_file():
        run.add_output(report, folder / "dns_answer.parquet")
    return None if rows is None else rows.num_rows


def remove_segments(folder: Path, rows: int) -> None:
    """Remove a finished period's segments, if quic_probe.parquet in `folder` has `rows` rows.

    Otherwise raise FirstflightError and keep the segments.
    """
    finished.remove_segments(folder / "quic_probe.parquet", rows, folder / "segments")


def _write_probes(period: WatchPeriod, rows: pa.Table, ruleset: str) -> dict[str, int]:
    """Write quic_probe.parquet. Return the counts by outcome, after checking the totals."""
    run, key = period.run, period.key
    out = period.folder / "quic_probe.parquet"
    result = counts.of([rows])
    accounting.balance(rows.num_rows, result.sent, result.by_outcome, period.label)
    merged = merge.merge(
        rows,
        _own_columns(rows, period.known, configured_resolver(run.settings.resolve).label),
        provenance.provenance(run, key, period.report.tool_version, ruleset, out),
        mapper=period.mapper,
        pauses=pauses.read_pauses(period.folder),
        captures=captures_in(run.layout.stage("capture", key)),
        capture_name=provenance.capture_name(run, key),
        slots=pc.subtract(rows["target"], pa.scalar(FIRST_SLOT, pa.uint32())).combine_chunks(),
    )
    merge.write([merged], out)
    run.add_output(period.report, out)
    return result.for_report()


def _own_columns(rows: pa.Table, known: dict[str, Name], resolver: str) -> pa.Table:
    """Return the columns that a plan from `scanner.driver.choose` would have for each row."""
    columns: list[dict[str, Any]] = []
    for domain, ip in zip(rows["domain"].to_pylist(), rows["ip"].to_pylist(), strict=True):
        name = known.get(domain)
        columns.append(
            {
                "target": 0,
                "domain": domain,
                "ip": ip,
                "list_id": OWNED_LIST_ID if name is None else name.list_id,
                "rank": None if name is None else name.rank,
                "address_rank": None,  # excludes watch rows from tables over names (quic_probe.yaml)
                "resolver": resolver,
            }
        )
    return pa.Table.from_pylist(columns, schema=choose.PLAN)
