"""Writes the record files and the report of the handshake stage from its engine's closed segments.

The engine closes the segments of certificates and responses before the segments of their handshakes. So after
a kill, segments may contain data of handshakes that are repeated. Only responses of handshakes with a row,
and the first copy of each certificate, are kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from firstflight.as_map import Mapper
from firstflight.cdn import rules as cdn_rules
from firstflight.cdn.methods import Methods
from firstflight.layout import StageKey
from firstflight.run.report import StageReport
from firstflight.run.run import Run
from scanner.backoff import pauses
from scanner.driver import summaries
from scanner.driver.rows import Rows
from scanner.driver.segments import closed_segments, joined
from scanner.handshake.aliases import Aliases
from scanner.handshake.sides import CONNECTION, KINDS, Numbers, hashes, tables
from scanner.records import counts, finished, merge
from scanner.records.provenance import provenance
from schemas import records

# Values of the engine's summary to copy to the manifest.
FACTS = (
    *("rate", "per_address_rate", "per_prefix_rate", "max_new_per_second", "timeout_ms", "seed"),
    *("key_share", "versions", "ech", "sni", "alpn", "second", "verify", "roots", "path", "user_agent"),
)


def write(
    run: Run, key: StageKey, plan: pa.Table, ruleset: str, report: StageReport, mapper: Mapper, stopped: bool
) -> None:
    """Write the three record files from the closed segments.

    `stopped`: write the existing rows, if any; the next start does the rest. Raise FirstflightError if a
    target has no row and was not rejected.
    """
    folder = run.layout.stage("handshake", key)
    closed = closed_segments(folder / "segments")
    if plan.num_rows == 0:
        for kind in KINDS:
            _write(run, key, report, kind, iter([records.load(kind).arrow_schema().empty_table()]))
        report.rows_out, report.counts = 0, {"sent": 0}
        return
    if stopped and not (closed and summaries.exist(folder)):
        return
    rows = Rows(closed)
    summary = summaries.read(folder)
    copy_summary(summary, report)
    finished.account(key, report, rows.targets, plan.num_rows, summary, stage="handshake", stopped=stopped)
    common = provenance(run, key, report.tool_version, ruleset, run.layout.handshakes(key))
    report.counts = counts.of_connections(rows.blocks(len(rows), ["outcome"]))
    methods = Methods.read(cdn_rules.in_force(run.layout.as_data))
    aliases = Aliases(methods, plan, run.layout.dns_answer(key))
    paused = pauses.read_pauses(folder)
    handshakes = _handshakes(rows, plan, common, mapper, aliases, paused)
    report.rows_out = _write(run, key, report, KINDS[0], handshakes)
    stamp = {**key.columns(), "tool_version": report.tool_version}
    for kind, blocks in (
        (KINDS[1], _certificates(folder / "segments")),
        (KINDS[2], _responses(folder / "segments", rows)),
    ):
        stamped = (merge.ordered_columns(kind, table, _repeated(stamp, table)) for table in blocks)
        report.facts[kind] = _write(run, key, report, kind, stamped)
    report.warnings = list(dict.fromkeys(report.warnings))


def copy_summary(summary: dict[str, Any], report: StageReport) -> None:
    """Copy settings in force and warnings from the engine's summary to the report."""
    facts = {name: summary[name] for name in FACTS}
    report.facts |= facts | {name: ",".join(facts[name]) for name in ("alpn", "versions")}
    for name in ("missing_tx_stamps", "missing_rx_stamps"):
        if summary[name]:
            report.warnings.append(f"{summary[name]} packets had no kernel stamp ({name})")


def _write(run: Run, key: StageKey, report: StageReport, kind: str, tables: Iterator[pa.Table]) -> int:
    out = run.layout.handshakes(key, kind)
    rows = merge.write(joined(tables), out, kind)
    run.add_output(report, out)
    return rows


def _handshakes(
    rows: Rows,
    plan: pa.Table,
    common: merge.StageProvenance,
    mapper: Mapper,
    aliases: Aliases,
    paused: list[pauses.Pause],
) -> Iterator[pa.Table]:
    """Yield the records of all rows. The engine sets the CDN by header and by certificate."""
    for block in rows.blocks(len(rows)):
        asn, cdn = merge.origins(block, mapper)
        flags = {"network_paused_at": pauses.paused_at(block, asn, paused)}
        origin = {"asn": asn, "cdn": cdn, "cdn_by_asn": cdn, "cdn_by_cname": aliases.cdns(block)}
        origin["capture_file"] = pa.nulls(block.num_rows, pa.string())
        yield merge.ordered_columns(
            KINDS[0], block, merge.stage_columns(common, merge.own_rows(block, plan)) | origin | flags
        )


def _certificates(segments: Path) -> Iterator[pa.Table]:
    """Yield the rows of certificates, without duplicates."""
    seen: set[bytes] = set()
    for table in tables(segments, KINDS[1]):
        first = []
        for digest in map(bytes.fromhex, table["sha256"].to_pylist()):
            first.append(digest not in seen)
            seen.add(digest)
        yield table.filter(pa.array(first, pa.bool_()))


def _responses(segments: Path, rows: Rows) -> Iterator[pa.Table]:
    """Yield the rows of responses to handshakes in `rows`, without duplicates."""
    done = np.concatenate([hashes(block) for block in rows.blocks(len(rows), [*CONNECTION])])
    seen: Numbers = np.empty(0, np.int64)
    for table in tables(segments, KINDS[2]):
        block_hashes = hashes(table)
        first = np.zeros(len(block_hashes), dtype=bool)
        first[np.unique(block_hashes, return_index=True)[1]] = True
        yield table.filter(pa.array(first & np.isin(block_hashes, done) & ~np.isin(block_hashes, seen)))
        seen = np.concatenate([seen, block_hashes])


def _repeated(stamp: dict[str, Any], table: pa.Table) -> dict[str, Any]:
    return {name: pa.repeat(pa.scalar(value), table.num_rows) for name, value in stamp.items()}
