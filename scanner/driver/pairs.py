"""Finds rows by name and address, among more than memory should hold as strings: by 64-bit hashes.

Equal hashes are candidates only: what is found was compared as strings.
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
    """The rows of a table with columns `domain` and `ip`, by both."""

    def __init__(self, table: pa.Table, scratch: Path) -> None:
        """Take the table, which may be mapped; `scratch`: a folder for a file of 8 bytes per row."""
        self._table = table.select(["domain", "ip"])
        # Half of the hash and the row's place in one number, which is sorted in its place.
        self._sorted = numbers(table.num_rows, np.uint64, scratch)
        for some, found in _hashes_of(self._table):
            self._sorted[some] = found.view(np.uint64) & _HASH
            self._sorted[some] |= np.arange(some.start, some.stop, dtype=np.uint64)
        self._sorted.sort()

    def find(self, domains: pa.Array, ips: pa.Array) -> tuple[Integers, Integers]:
        """Return which of these pairs the table has, and in which row each of those is."""
        wanted = hashes(domains, ips).view(np.uint64) & _HASH
        first = np.searchsorted(self._sorted, wanted, side="left")
        last = np.searchsorted(self._sorted, wanted | _PLACE, side="right")
        of, at = [], []
        # Once, unless two rows have the same half of a hash.
        for step in range(int((last - first).max(initial=0))):
            some = np.flatnonzero(first + step < last)
            places = (self._sorted[first[some] + step] & _PLACE).astype(np.int64)
            rows = rows_at(self._table, places)
            equal = pc.and_(
                pc.equal(rows["domain"], domains.take(pa.array(some))),
                pc.equal(rows["ip"], ips.take(pa.array(some))),
            ).to_numpy()
            of.append(some[equal])
            at.append(places[equal])
        if not of:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        return np.concatenate(of), np.concatenate(at)


def repeated(table: pa.Table, scratch: Path) -> Integers:
    """Return the places of the rows whose `domain` and `ip` an earlier row has, ascending.

    `scratch`: a folder for a temporary file of 8 bytes per row.
    """
    ordered = numbers(table.num_rows, np.int64, scratch)
    for some, found in _hashes_of(table):
        ordered[some] = found
    ordered.sort()
    twice = np.concatenate(
        [np.empty(0, np.int64)]
        + [
            ordered[1:][some][ordered[1:][some] == ordered[:-1][some]]
            for some in slices(max(0, len(ordered) - 1))
        ]
    )
    if not len(twice):
        return np.empty(0, np.int64)
    places = np.concatenate(
        [some.start + np.flatnonzero(np.isin(found, twice)) for some, found in _hashes_of(table)]
    )
    rows = rows_at(table.select(["domain", "ip"]), places)
    seen: set[tuple[str, str]] = set()
    again = []
    for place, *pair in zip(places, rows["domain"].to_pylist(), rows["ip"].to_pylist(), strict=True):
        if tuple(pair) in seen:
            again.append(place)
        seen.add(tuple(pair))
    return np.array(again, np.int64)


def _hashes_of(table: pa.Table) -> Iterator[tuple[slice, Integers]]:
    """Yield the hashes of the rows of a table, and the places of these rows."""
    begin = 0
    for batch in table.select(["domain", "ip"]).to_batches():
        yield slice(begin, begin + batch.num_rows), hashes(*batch.columns)
        begin += batch.num_rows
