"""When the pairs of name and address of a stage were last probed, by earlier record files."""

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
    """When each row's name and address were last probed (UTC, ns), by `earlier`: files of quic_probe."""

    def __init__(self, rows: Rows, earlier: Sequence[Path], scratch: Path) -> None:
        """`scratch`: a folder for temporary files of 16 bytes per row."""
        self._rows = rows
        self._last: npt.NDArray[np.int64] | None = None
        if not earlier:
            return
        own = Pairs(rows.unsorted, scratch)
        self._last = numbers(len(rows), np.int64, scratch)
        for some in slices(len(rows)):
            self._last[some] = _NEVER
        for path in earlier:
            for batch in batches(path, ["domain", "ip", "sent_at"]):
                sent = batch.filter(pc.is_valid(batch["sent_at"]))
                of, at = own.find(sent["domain"], sent["ip"])
                np.maximum.at(self._last, at, sent["sent_at"].to_numpy()[of])

    def slice(self, begin: int, end: int) -> pa.Array:
        """Return the times of a slice of the rows, null for what was not probed before."""
        if self._last is None:
            return pa.nulls(end - begin, pa.int64())
        last = np.asarray(self._last[self._rows.places(begin, end)])
        return pa.array(last, mask=last == _NEVER)
