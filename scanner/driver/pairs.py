"""Finds the rows of (name, address) pairs with 64-bit hashes, because strings would need too much memory.

Equal hashes are only candidates: results are compared as strings.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from scanner.driver.mapped import numbers, rows_at, slices

Integers = npt.NDArray[np.int64]
_PLACE = np.uint64((1 << 32) - 1)
_HASH = ~_PLACE


def hashes(domains: pa.Array, ips: pa.Array) -> Integers:
    """Return a hash of each (name, address), the same within this process."""
    pairs = zip(domains.to_pylist(), ips.to_pylist(), strict=True)
    return np.fromiter(map(hash, pairs), np.int64, len(domains))


class Pairs:
    """Finds the rows in a table with given values of `domain` and `ip`."""

    def __init__(self, table: pa.Table, scratch: Path) -> None:
        """Index a table, which may be mapped. `scratch`: a folder for a file of 8 bytes per row."""
        self._table = table.select(["domain", "ip"])
        # Half of the hash and the row's position in one number. The array is sorted in place.
        self._sorted = numbers(table.num_rows, np.uint64, scratch)
        for part, part_hashes in _hashes_of(self._table):
            self._sorted[part] = part_hashes.view(np.uint64) & _HASH
            self._sorted[part] |= np.arange(part.start, part.stop, dtype=np.uint64)
        self._sorted.sort()

    def find(self, domains: pa.Array, ips: pa.Array) -> tuple[Integers, Integers]:
        """Return the indices of the pairs that the table contains, and their rows."""
        keys = hashes(domains, ips).view(np.uint64) & _HASH
        first = np.searchsorted(self._sorted, keys, side="left")
        last = np.searchsorted(self._sorted, keys | _PLACE, side="right")
        query_indices, row_indices = [], []
        # One step, unless two rows have the same half of a hash.
        for step in range(int((last - first).max(initial=0))):
            queries = np.flatnonzero(first + step < last)
            candidates = (self._sorted[first[queries] + step] & _PLACE).astype(np.int64)
            rows = rows_at(self._table, candidates)
            equal = pc.and_(
                pc.equal(rows["domain"], domains.take(pa.array(queries))),
                pc.equal(rows["ip"], ips.take(pa.array(queries))),
            ).to_numpy()
            query_indices.append(queries[equal])
            row_indices.append(candidates[equal])
        if not query_indices:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        return np.concatenate(query_indices), np.concatenate(row_indices)


def repeated(table: pa.Table, scratch: Path) -> Integers:
    """Return the positions, ascending, of rows that repeat the `domain` and `ip` of an earlier row.

    `scratch`: a folder for a temporary file of 8 bytes per row.
    """
    ordered = numbers(table.num_rows, np.int64, scratch)
    for part, part_hashes in _hashes_of(table):
        ordered[part] = part_hashes
    ordered.sort()
    repeated_hashes = np.concatenate(
        [np.empty(0, np.int64)]
        + [
            ordered[1:][part][ordered[1:][part] == ordered[:-1][part]]
            for part in slices(max(0, len(ordered) - 1))
        ]
    )
    if not len(repeated_hashes):
        return np.empty(0, np.int64)
    indices = np.concatenate(
        [
            part.start + np.flatnonzero(np.isin(part_hashes, repeated_hashes))
            for part, part_hashes in _hashes_of(table)
        ]
    )
    rows = rows_at(table.select(["domain", "ip"]), indices)
    seen: set[tuple[str, str]] = set()
    repeats = []
    for index, *pair in zip(indices, rows["domain"].to_pylist(), rows["ip"].to_pylist(), strict=True):
        if tuple(pair) in seen:
            repeats.append(index)
        seen.add(tuple(pair))
    return np.array(repeats, np.int64)


def _hashes_of(table: pa.Table) -> Iterator[tuple[slice, Integers]]:
    """Yield the hashes for a table's rows, and the positions of these rows."""
    begin = 0
    for batch in table.select(["domain", "ip"]).to_batches():
        yield slice(begin, begin + batch.num_rows), hashes(*batch.columns)
        begin += batch.num_rows
