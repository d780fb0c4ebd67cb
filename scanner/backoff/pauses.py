"""Pauses of networks: their file, and the rows that they affect."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel

from firstflight.system import files
from scanner.backoff.detector import SECOND_NS, Sign

PAUSES_FILE = "pauses.json"
# The prober's `detail` for a target that a pause refused (scanner/native/core/src/targets/backlog.rs).
REFUSED_DETAIL = "its network was paused: too many timeouts or Retries"


class Pause(BaseModel):
    """One pause of one AS. `suspect_from_ns`: time of the first probe in the window that caused it."""

    asn: int
    sign: Sign
    baseline: tuple[int, int]
    window: tuple[int, int]
    suspect_from_ns: int
    paused_at_ns: int
    resumed_at_ns: int | None = None  # null = not resumed


def read_pauses(folder: Path) -> list[Pause]:
    """Read the pauses of a stage, oldest first; empty if there was none."""
    path = folder / PAUSES_FILE
    return [Pause.model_validate(entry) for entry in files.read_json(path)] if path.is_file() else []


def carry_over(earlier: Path, folder: Path, *, now_ns: int, resume_after_s: float) -> None:
    """Let a stage in `folder` that begins at `now_ns` go on with the pauses in force in the folder `earlier`.

    Does nothing if it has pauses of its own. A pause lasts `resume_after_s` from its beginning; 0: always.
    """
    if (folder / PAUSES_FILE).is_file():
        return
    since_ns = now_ns - int(resume_after_s * SECOND_NS)
    active = [
        pause.model_dump()
        for pause in read_pauses(earlier)
        if pause.resumed_at_ns is None and (not resume_after_s or pause.paused_at_ns > since_ns)
    ]
    if active:
        files.write_json(folder / PAUSES_FILE, active)


def paused_at(segments: pa.Table, asn: pa.Array, pauses: Sequence[Pause]) -> pa.Array:
    """Return per row when the AS of its address was paused (ns); null for rows that no pause affects.

    A pause affects the probes sent from the first one of the window that caused it until probing resumed, and
    the targets that were refused because of it.
    """
    result = pa.nulls(segments.num_rows, pa.int64())
    named = pc.is_in(asn, value_set=pa.array([pause.asn for pause in pauses], asn.type))
    if not pc.any(named).as_py():
        return result
    sent, detail = segments["sent_at"].combine_chunks(), segments["detail"].combine_chunks()
    refused = pc.and_(pc.is_null(sent), pc.fill_null(pc.equal(detail, REFUSED_DETAIL), False))
    for pause in pauses:
        during = pc.greater_equal(sent, pause.suspect_from_ns)
        if pause.resumed_at_ns is not None:
            during = pc.and_(during, pc.less(sent, pause.resumed_at_ns))
        affected = pc.and_(pc.equal(asn, pause.asn), pc.or_(refused, pc.fill_null(during, False)))
        # Of several pauses the first one counts.
        result = pc.coalesce(result, pc.if_else(affected, pause.paused_at_ns, None))
    return result
