"""Builds the watch_slot records: each slot is either probed, or skipped with a reason."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from firstflight.errors import FirstflightError
from firstflight.run.accounting import NOT_SENT
from firstflight.system import files
from scanner.driver.feed import FIRST_SLOT
from scanner.planned.probes import PlannedProbe, read_log
from schemas import records

LOG = "slots.jsonl"
SKIPPED = "skipped.jsonl"


def of_segments(segments: pa.Table) -> dict[int, dict[str, Any]]:
    """Return the planned probes among the prober's rows, by slot number."""
    rows = segments.filter(pc.greater_equal(segments["target"], pa.scalar(FIRST_SLOT, pa.uint32())))
    return {row["target"] - FIRST_SLOT: row for row in rows.to_pylist()}


def feeder_log(folder: Path) -> Iterable[dict[str, Any]]:
    """Return the entries of the feeder's log: the slots that became due."""
    return read_log(folder / LOG)


def planned(slots: Iterable[PlannedProbe]) -> Iterable[dict[str, Any]]:
    """Yield log entries for planned probes that never became due."""
    for slot in slots:
        yield {
            "slot": slot.number,
            "planned_ns": slot.planned_ns,
            "purpose": slot.series.purpose,
            "domain": slot.series.domain,
            "family": slot.series.family,
            "ip": None,
            "asn": None,
            "unfed": True,
        }


def build(
    folder: Path,
    all_slots: Iterable[dict[str, Any]],
    probed: dict[int, dict[str, Any]],
    common: dict[str, Any],
    origin: Callable[[str], tuple[int | None, str | None]],
    unfed_reason: str,
) -> pa.Table:
    """Build the table of watch_slot records.

    `all_slots`: log entries; `probed`: from `of_segments`; `common`: columns that all rows share;
    `unfed_reason`: why slots that never became due were skipped. Raise FirstflightError if the totals do not
    match.
    """
    skipped = {entry["slot"] - FIRST_SLOT: entry for entry in read_log(folder / SKIPPED)}
    rows: list[dict[str, Any]] = []
    unmatched = set(probed)
    for entry in all_slots:
        number = entry["slot"]
        row = probed.get(number)
        unmatched.discard(number)
        ip = row["ip"] if row is not None else entry["ip"]
        asn, cdn = origin(ip) if ip is not None else (None, None)
        rows.append(
            common
            | {"slot": number, "planned_at": entry["planned_ns"], "purpose": entry["purpose"]}
            | {"domain": entry["domain"], "family": entry["family"], "ip": ip, "asn": asn, "cdn": cdn}
            | _state_columns(entry, row, skipped.get(number), unfed_reason)
        )
    _check(rows, unmatched, folder)
    return pa.Table.from_pylist(rows, schema=records.load("watch_slot").arrow_schema())


def write(table: pa.Table, path: Path) -> None:
    """Write the record file atomically."""
    with files.replacing(path) as temporary:
        pq.write_table(table, temporary, compression="zstd")


def counts(table: pa.Table) -> dict[str, int]:
    """Count slots, probed slots, and skipped slots by reason, for the stage's report."""
    result = {"slots": table.num_rows, "probed": 0}
    for state, reason in zip(table["state"].to_pylist(), table["reason"].to_pylist(), strict=True):
        name = "probed" if state == "probed" else f"skipped_{reason}"
        result[name] = result.get(name, 0) + 1
    return result


def _state_columns(
    entry: dict[str, Any], row: dict[str, Any] | None, skip: dict[str, Any] | None, unfed_reason: str
) -> dict[str, Any]:
    if row is not None and row["outcome"] not in NOT_SENT:
        late_us = None if row["sent_at"] is None else (row["sent_at"] - entry["planned_ns"]) // 1000
        return {
            "state": "probed",
            "late_us": late_us,
            **{name: row[name] for name in ("sent_at", "outcome", "ack_us", "sh_us")},
        }
    if row is not None:
        reason, late_us = row["outcome"], None
    elif skip is not None:
        reason, late_us = skip["reason"], skip["late_us"]
    elif entry.get("unfed"):
        reason, late_us = unfed_reason, None
    elif "skipped" in entry:
        reason, late_us = entry["skipped"], None
    elif entry["ip"] is None:
        reason, late_us = "no_address", None
    else:
        reason, late_us = "cut", None  # submitted before the prober was killed: outcome unknown
    return {"state": "skipped", "reason": reason, "late_us": late_us}


def _check(rows: list[dict[str, Any]], unmatched: set[int], folder: Path) -> None:
    numbers = {row["slot"] for row in rows}
    probed = sum(1 for row in rows if row["state"] == "probed")
    skipped = sum(1 for row in rows if row["state"] == "skipped" and row["reason"])
    if unmatched or len(numbers) != len(rows) or probed + skipped != len(rows):
        raise FirstflightError(
            f"{folder}: the sums do not hold: {len(rows)} slots ({len(numbers)} different), {probed} probed, "
            f"{skipped} skipped, {len(unmatched)} records of probes without a slot"
        )
