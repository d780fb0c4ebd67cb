"""The engine's segments of certificates and responses, and a response's connection."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from scanner.driver.segments import closed_segments, read_segment
from schemas import records

KINDS = ("quic_handshake", "certificate", "http3_response")
# The columns that identify a connection.
CONNECTION = ("domain", "ip", "port", "sent_at")

Numbers = npt.NDArray[np.int64]


def tables(segments: Path, kind: str) -> Iterator[pa.Table]:
    """Yield the closed segments of a kind other than handshakes, at least one table."""
    record_kind = records.load(kind)
    engine = [column.name for column in record_kind.columns if column.source == "handshake"]
    yield record_kind.arrow_schema().empty_table().select(engine)
    yield from map(read_segment, closed_segments(segments / kind))


def hashes(table: pa.Table) -> Numbers:
    """Return a hash of each row's connection, the same within this process."""
    columns = [table[name].to_pylist() for name in CONNECTION]
    return np.fromiter(map(hash, zip(*columns, strict=True)), np.int64, table.num_rows)
