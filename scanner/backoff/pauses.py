"""Pauses of networks: their file, and the affected rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel

from firstflight.system import files
from scanner.backoff.detector import SECOND_NS, Sign

PAUSES_FILE = "pauses.json"
# The prober's `detail` for a target refused due to a pause
# (scanner/native/core/src/input/targets/backlog.rs).
REFUSED_DETAIL = "its network was paused: too many timeouts or Retries"


class Pause(BaseModel):
    """A pause for an AS. `suspect_from_ns`: time of the first probe in the window that caused it."""

    asn: int
    sign: Sign
    baseline: tuple[int, int]
    window: tuple[int, int]
    suspect_from_ns: int
    paused_at_ns: int
    resumed_at_ns: int | None = None  # null = not resumed


def read_pauses(folder: Path) -> list[Pause]:
    """Read a stage's pauses, oldest first; empty without a file."""
    path = folder / PAUSES_FILE
    return [Pause.model_validate(entry) for entry in files.read_json(path)] if path.is_file() else []


def carry_over(earlier: Path, folder: Path, *, now_ns: int, resume_after_s: float) -> None:
    """Continue the active pauses of the folder `earlier` in a stage that starts at `now_ns` in `folder`.

    Does nothing if `folder` already has pauses. A pause lasts `resume_after_s` from the start; 0: forever.
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
    """Return for each row when the AS was paused (ns); null for rows that no pause affects.

    A pause affects the probes from the first probe in the window that caused it until probing resumes. It
    also affects the targets that were refused because of it.
    """
    result = pa.nulls(segments.num_rows, pa.int64())
    is_paused = pc.is_in(asn, value_set=pa.array([pause.asn for pause in pauses], asn.type))
    if not pc.any(is_paused).as_py():
        return result
    sent, detail = segments["sent_at"].combine_chunks(), segments["detail"].combine_chunks()
    refused = pc.and_(pc.is_null(sent), pc.fill_null(pc.equal(detail, REFUSED_DETAIL), False))
    for pause in pauses:
        is_during = pc.greater_equal(sent, pause.suspect_from_ns)
        if pause.resumed_at_ns is not None:
            is_during = pc.and_(is_during, pc.less(sent, pause.resumed_at_ns))
        affected = pc.and_(pc.equal(asn, pause.asn), pc.or_(refused, pc.fill_null(is_during, False)))
        # If several pauses affect a row, the first is used.
        result = pc.coalesce(result, pc.if_else(affected, pause.paused_at_ns, None))
    return result
