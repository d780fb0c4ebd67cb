"""Pauses of networks: how they are written down, and which rows they concern."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
from pydantic import BaseModel

from firstflight.system import files
from scanner.backoff.detector import Sign

PAUSES_FILE = "pauses.json"
# What the prober writes into `detail` of a target that a pause refused (core/src/targets/backlog.rs).
REFUSED_DETAIL = "its network was paused: too many timeouts or Retries"


class Pause(BaseModel):
    """One pause of one AS. `suspect_from_ns`: the first probe of the window that showed it."""

    asn: int
    sign: Sign
    baseline: tuple[int, int]
    window: tuple[int, int]
    suspect_from_ns: int
    paused_at_ns: int
    resumed_at_ns: int | None = None  # null = not resumed


def read_pauses(folder: Path) -> list[Pause]:
    """The pauses of a stage, oldest first; empty if there was none."""
    path = folder / PAUSES_FILE
    return [Pause.model_validate(entry) for entry in files.read_json(path)] if path.is_file() else []


def paused_at(segments: pa.Table, asn: pa.Array, pauses: Sequence[Pause]) -> pa.Array:
    """Per row, when the AS of its address was paused (ns), for rows that a pause concerns; else null.

    Those are the probes sent from the first of the window that showed it until probing went on, and the
    targets that were not probed because of it.
    """
    if not pauses:
        return pa.nulls(segments.num_rows, pa.int64())
    by_asn: dict[int, list[Pause]] = {}
    for pause in pauses:
        by_asn.setdefault(pause.asn, []).append(pause)

    def one(number: int | None, sent_ns: int | None, detail: str | None) -> int | None:
        for pause in by_asn.get(number or 0, ()):
            if sent_ns is None:
                if detail == REFUSED_DETAIL:
                    return pause.paused_at_ns
            elif sent_ns >= pause.suspect_from_ns and (
                pause.resumed_at_ns is None or sent_ns < pause.resumed_at_ns
            ):
                return pause.paused_at_ns
        return None

    columns = (asn.to_pylist(), segments["sent_at"].to_pylist(), segments["detail"].to_pylist())
    return pa.array([one(*row) for row in zip(*columns, strict=True)], pa.int64())
