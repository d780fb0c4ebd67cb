"""When a stage's pairs of name and address were last probed, according to earlier record files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from scanner.driver.mapped import batches, numbers, slices
from scanner.driver.pairs import Pairs
from scanner.driver.rows import Rows

_NEVER = np.iinfo(np.int64).min


class LastProbes:
    """When each row's name and address were last probed (UTC, ns). `earlier`: files of quic_probe."""

    def __init__(self, rows: Rows, earlier: Sequence[Path], scratch: Path) -> None:
        """`scratch`: a folder for temporary files of 16 bytes per row."""
        self._rows = rows
        self._last: npt.NDArray[np.int64] | None = None
        if not earlier:
            return
        pairs = Pairs(rows.unsorted, scratch)
        self._last = numbers(len(rows), np.int64, scratch)
        for part in slices(len(rows)):
            self._last[part] = _NEVER
        for path in earlier:
            for batch in batches(path, ["domain", "ip", "sent_at"]):
                sent = batch.filter(pc.is_valid(batch["sent_at"]))
                sent_indices, row_indices = pairs.find(sent["domain"], sent["ip"])
                times = sent["sent_at"].cast(pa.int64()).to_numpy()
                np.maximum.at(self._last, row_indices, times[sent_indices])

    def slice(self, begin: int, end: int) -> pa.Array:
        """Return the times for a slice of the rows; null for pairs that were not probed before."""
        if self._last is None:
            return pa.nulls(end - begin, pa.int64())
        last_ns = np.asarray(self._last[self._rows.places(begin, end)])
        return pa.array(last_ns, mask=last_ns == _NEVER)
