"""When a plan's pairs of name and address were last probed, according to earlier record files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

_NEVER = np.iinfo(np.int64).min


def last_probes(plan: pa.Table, earlier: Sequence[Path]) -> pa.Array:
    """Return when the pair in each row of a plan was last probed (UTC, ns); null if never.

    `earlier`: files of quic_probe. The pairs of the plan are distinct.
    """
    pairs = _pairs(plan)
    last = np.full(plan.num_rows, _NEVER)
    for path in earlier:
        with pq.ParquetFile(path) as file:
            probes = file.read(["domain", "ip", "sent_at"], use_threads=False)
        # Not a join, because its tables of a million pairs would take most of a gigabyte.
        rows = pc.index_in(_pairs(probes), value_set=pairs)
        is_known = pc.and_(pc.is_valid(rows), pc.is_valid(probes["sent_at"]))
        times = probes["sent_at"].cast(pa.int64()).filter(is_known)
        np.maximum.at(last, rows.filter(is_known).to_numpy(), times.to_numpy())
    pa.default_memory_pool().release_unused()
    return pa.array(last, mask=last == _NEVER)


def _pairs(table: pa.Table) -> pa.ChunkedArray:
    return pc.binary_join_element_wise(table["domain"], table["ip"], " ")
