"""Compares the dissector's rows with the prober's. The two programs read the same packets independently."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from firstflight.errors import InputError

# Columns of the prober and of the dissector that must be equal in an answered probe. The first is the
# client's connection ID.
PROBER = ("client_cid", "outcome", "ack_pn", "sh_pn", "ack_delay_raw")
DISSECTOR = ("client_scid", "first_answer", "ack_pn", "sh_pn", "ack_delay_raw")
_CID = PROBER[0]
# A join does not match nulls, but here null equals null. No column has this number.
_NULL = pa.scalar(-1, pa.int64())


@dataclass(frozen=True)
class Agreement:
    """Number of probes with a connection in the captures, the client's connection IDs (hex) of probes that
    differ from their connections, and number of connections in the captures."""

    compared: int
    differing: list[str]
    connections: int


def compare(probes: list[Path], connections: Path) -> Agreement:
    """Compare quic_probe files with quic_connection rows that have the same client connection ID.

    A probe with several attempts agrees if any connection agrees. InputError if a file cannot be read.
    """
    captured = _read(connections, DISSECTOR)
    probed = pa.concat_tables([_read(path, PROBER) for path in probes])
    in_captures = probed.join(captured.select([_CID]), _CID, join_type="left semi")
    differing = in_captures.join(captured, list(PROBER), join_type="left anti")
    return Agreement(in_captures.num_rows, sorted(set(differing[_CID].to_pylist())), captured.num_rows)


def _read(path: Path, columns: tuple[str, ...]) -> pa.Table:
    """Return `columns` from a record file with the prober's names, and `_NULL` instead of null numbers."""
    try:
        table = pq.read_table(path, columns=list(columns)).rename_columns(list(PROBER))
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"cannot read {path}: {error}; run its stage with --again") from error
    texts = [table[name].cast(pa.string()) for name in PROBER[:2]]
    numbers = [table[name].cast(pa.int64()).fill_null(_NULL) for name in PROBER[2:]]
    return pa.table([*texts, *numbers], names=list(PROBER))
