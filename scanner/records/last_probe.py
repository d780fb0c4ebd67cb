"""When the pairs of name and address of a stage were last probed, by earlier record files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from scanner.driver.mapped import BATCH
from scanner.driver.pairs import Pairs
from scanner.driver.rows import Rows

_NEVER = np.iinfo(np.int64).min


class LastProbes:
    """When each row's name and address were last probed (UTC, ns), by `earlier`: files of quic_probe."""

    def __init__(self, rows: Rows, earlier: Sequence[Path]) -> None:
        self._order = rows.order
        self._last: npt.NDArray[np.int64] | None = None
        if not earlier:
            return
        own = Pairs(rows.unsorted)
        self._last = np.full(len(rows), _NEVER, np.int64)
        for path in earlier:
            # ParquetFile, not read_table: the latter imports pyarrow.dataset, which takes half a second.
            for batch in pq.ParquetFile(path).iter_batches(BATCH, columns=["domain", "ip", "sent_at"]):
                sent = batch.filter(pc.is_valid(batch["sent_at"]))
                of, at = own.find(sent["domain"], sent["ip"])
                np.maximum.at(self._last, at, sent["sent_at"].to_numpy()[of])

    def slice(self, begin: int, end: int) -> pa.Array:
        """Return the times of a slice of the rows, null for what was not probed before."""
        if self._last is None:
            return pa.nulls(end - begin, pa.int64())
        last = self._last[self._order[begin:end]]
        return pa.array(last, mask=last == _NEVER)
