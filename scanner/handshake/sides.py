"""What the engine writes beside its handshakes, by segments, and which connection a response belongs to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from scanner.driver.segments import closed_segments, read_segment
from schemas import records

KINDS = ("quic_handshake", "certificate", "http3_response")
# What tells one connection from every other.
CONNECTION = ("domain", "ip", "port", "sent_at")

Numbers = npt.NDArray[np.int64]


def tables(segments: Path, kind: str) -> Iterator[pa.Table]:
    """Yield the closed segments of a kind that is not the handshakes' own, at least one table."""
    described = records.load(kind)
    engine = [column.name for column in described.columns if column.source == "handshake"]
    yield described.arrow_schema().empty_table().select(engine)
    yield from map(read_segment, closed_segments(segments / kind))


def hashes(table: pa.Table) -> Numbers:
    """Return a hash of each row's connection, the same within this process."""
    columns = [table[name].to_pylist() for name in CONNECTION]
    return np.fromiter(map(hash, zip(*columns, strict=True)), np.int64, table.num_rows)
