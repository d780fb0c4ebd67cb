"""Writes the record file and the report of the calibrate stage from the pairs of its blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from firstflight.as_map import Mapper
from firstflight.errors import FirstflightError
from firstflight.layout import StageKey
from firstflight.run.report import StageReport
from firstflight.run.run import Run
from scanner.calibrate import pairs
from scanner.driver.mapped import joined
from scanner.driver.segments import read_segment
from scanner.records import finished, merge
from scanner.records.provenance import provenance
from schemas import records

KIND = "calibration"
# Answers that tell whether the server sends instant ACKs.
ANSWERS = pa.array(["iack", "coalesced", "sh_first"])
COUNTED = ["probe_outcome", "probe_sent_at", "handshake_first_answer", "handshake_sent_at"]


def write(
    run: Run, key: StageKey, plan: pa.Table, ruleset: str, report: StageReport, mapper: Mapper, stopped: bool
) -> None:
    """Write calibration.parquet from the blocks that are done.

    `stopped`: write the pairs that exist, if any; the next start sends the others. Raises FirstflightError if
    a target has no pair without having been rejected.
    """
    settings = run.settings
    done = pairs.done(run.layout.stage("calibrate", key))
    if stopped and not done:
        return
    report.facts |= {
        "rate": settings.calibrate.rate,
        "block": settings.calibrate.block,
        "gap_s": settings.calibrate.gap_s,
        "key_share": settings.handshake.key_share,
    }
    targets = [read_segment(path, ["target"])["target"].to_numpy() for path in done]
    paired = np.concatenate([np.empty(0, np.uint32), *targets])
    missing = plan.num_rows - len(paired)
    if stopped:
        report.facts["not_connected"] = missing
    elif len(done) != -(-plan.num_rows // settings.calibrate.block):
        raise FirstflightError(f"{key}: {len(done)} blocks of pairs are there, not all")
    else:  # a block is only written when each of its targets has rows or is rejected
        reason = "rejected by the engines: it is no name or address to contact"
        report.rejected = finished.rejected(paired, plan.num_rows, {"rejected": missing}, reason)
    out = run.layout.calibration(key)
    common = provenance(run, key, report.tool_version, ruleset, out)
    report.rows_out = merge.write(joined(_rows(run, key, plan, common, mapper)), out, KIND)
    report.counts = counts(read_segment(path, COUNTED) for path in done)
    run.add_output(report, out)


def counts(tables: Iterable[pa.Table | pa.RecordBatch]) -> dict[str, int]:
    """Return how many pairs were sent on both sides, and of all how many agreed, disagreed or neither.

    Agreed: both sides have an answer of ANSWERS, and either both an instant ACK or both none.
    """
    found = {"sent": 0, "agreed": 0, "disagreed": 0, "not_compared": 0}
    for table in tables:
        probe, handshake = table["probe_outcome"], table["handshake_first_answer"]
        compared = pc.and_(pc.is_in(probe, ANSWERS), pc.is_in(handshake, ANSWERS))
        same = pc.equal(pc.equal(probe, "iack"), pc.fill_null(pc.equal(handshake, "iack"), False))
        sent = pc.and_(pc.is_valid(table["probe_sent_at"]), pc.is_valid(table["handshake_sent_at"]))
        found["sent"] += _true(sent)
        found["agreed"] += _true(pc.and_(compared, same))
        found["disagreed"] += _true(pc.and_not(compared, same))
        found["not_compared"] += table.num_rows - _true(compared)
    return found


def _true(values: pa.Array | pa.ChunkedArray) -> int:
    return int(pc.sum(values).as_py() or 0)


def _rows(
    run: Run, key: StageKey, plan: pa.Table, common: merge.Provenance, mapper: Mapper
) -> Iterator[pa.Table]:
    yield records.load(KIND).arrow_schema().empty_table()
    for path in pairs.done(run.layout.stage("calibrate", key)):
        found = read_segment(path)
        asn, cdn = merge.origins(found, mapper)
        own = merge.stage_columns(common, merge.own_rows(found, plan))
        yield merge.in_order(KIND, found, own | {"asn": asn, "cdn": cdn})
