"""Writes the calibrate stage's record file and report from the pairs in all blocks."""

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
from scanner.driver.segments import joined, read_segment
from scanner.records import finished, merge
from scanner.records.provenance import provenance
from schemas import records

KIND = "calibration"
# Answers that show whether the server sends instant ACKs.
ANSWERS = pa.array(["iack", "coalesced", "sh_first"])
COUNTED = ["probe_outcome", "probe_sent_at", "handshake_first_answer", "handshake_sent_at"]


def write(
    run: Run, key: StageKey, plan: pa.Table, ruleset: str, report: StageReport, mapper: Mapper, stopped: bool
) -> None:
    """Write calibration.parquet from the finished blocks.

    `stopped`: write the existing pairs, if any; the next start sends the others. Raise FirstflightError if a
    target has no pair and was not rejected.
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
        raise FirstflightError(f"{key}: only {len(done)} blocks of pairs exist, not all")
    else:  # in a written block, each target has rows or was rejected
        reason = "rejected by the engines: it is not a name or address to contact"
        report.rejected = finished.rejected(paired, plan.num_rows, {"rejected": missing}, reason)
    out = run.layout.calibration(key)
    common = provenance(run, key, report.tool_version, ruleset, out)
    report.rows_out = merge.write(joined(_rows(run, key, plan, common, mapper)), out, KIND)
    report.counts = counts(read_segment(path, COUNTED) for path in done)
    run.add_output(report, out)


def counts(tables: Iterable[pa.Table | pa.RecordBatch]) -> dict[str, int]:
    """Return how many pairs were sent on both sides, and how many agree, disagree or are not comparable.

    Two sides agree if both have an answer of ANSWERS, and both or neither have an instant ACK.
    """
    result = {"sent": 0, "agreed": 0, "disagreed": 0, "not_compared": 0}
    for table in tables:
        probe, handshake = table["probe_outcome"], table["handshake_first_answer"]
        compared = pc.and_(pc.is_in(probe, ANSWERS), pc.is_in(handshake, ANSWERS))
        agrees = pc.equal(pc.equal(probe, "iack"), pc.fill_null(pc.equal(handshake, "iack"), False))
        sent = pc.and_(pc.is_valid(table["probe_sent_at"]), pc.is_valid(table["handshake_sent_at"]))
        result["sent"] += _true(sent)
        result["agreed"] += _true(pc.and_(compared, agrees))
        result["disagreed"] += _true(pc.and_not(compared, agrees))
        result["not_compared"] += table.num_rows - _true(compared)
    return result


def _true(values: pa.Array | pa.ChunkedArray) -> int:
    return int(pc.sum(values).as_py() or 0)


def _rows(
    run: Run, key: StageKey, plan: pa.Table, common: merge.StageProvenance, mapper: Mapper
) -> Iterator[pa.Table]:
    yield records.load(KIND).arrow_schema().empty_table()
    for path in pairs.done(run.layout.stage("calibrate", key)):
        block = read_segment(path)
        asn, cdn = merge.origins(block, mapper)
        columns = merge.stage_columns(common, merge.own_rows(block, plan))
        yield merge.ordered_columns(KIND, block, columns | {"asn": asn, "cdn": cdn})
