"""Finds rows by name and address, among more than memory should hold as strings: by 64-bit hashes.

Equal hashes are candidates only: what is found was compared as strings.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Integers = npt.NDArray[np.int64]


def hashes(domains: pa.Array, ips: pa.Array) -> Integers:
    """Return a hash of each (name, address), the same within this process."""
    pairs = zip(domains.to_pylist(), ips.to_pylist(), strict=True)
    return np.fromiter(map(hash, pairs), np.int64, len(domains))


class Pairs:
    """The rows of a table with columns `domain` and `ip`, by both."""

    def __init__(self, table: pa.Table) -> None:
        """Take the table, which may be mapped; 16 bytes per row are in memory."""
        self._table = table.select(["domain", "ip"])
        unsorted = _hashes_of(self._table)
        self._order = np.argsort(unsorted, kind="stable")
        self._hashes = unsorted[self._order]

    def find(self, domains: pa.Array, ips: pa.Array) -> tuple[Integers, Integers]:
        """Return which of these pairs the table has, and in which row each of those is."""
        wanted = hashes(domains, ips)
        first = np.searchsorted(self._hashes, wanted, side="left")
        last = np.searchsorted(self._hashes, wanted, side="right")
        of, at = [], []
        # Once, unless two rows have the same hash.
        for step in range(int((last - first).max(initial=0))):
            some = np.flatnonzero(first + step < last)
            places = self._order[first[some] + step]
            rows = self._table.take(pa.array(places))
            equal = pc.and_(
                pc.equal(rows["domain"], domains.take(pa.array(some))),
                pc.equal(rows["ip"], ips.take(pa.array(some))),
            ).to_numpy()
            of.append(some[equal])
            at.append(places[equal])
        if not of:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        return np.concatenate(of), np.concatenate(at)


def repeated(table: pa.Table) -> Integers:
    """Return the places of the rows whose `domain` and `ip` an earlier row has, ascending."""
    ordered = _hashes_of(table)
    ordered.sort()
    twice = ordered[1:][ordered[1:] == ordered[:-1]]
    if not len(twice):
        return np.empty(0, np.int64)
    places = np.flatnonzero(np.isin(_hashes_of(table), twice))
    rows = table.select(["domain", "ip"]).take(pa.array(places))
    seen: set[tuple[str, str]] = set()
    again = []
    for place, *pair in zip(places, rows["domain"].to_pylist(), rows["ip"].to_pylist(), strict=True):
        if tuple(pair) in seen:
            again.append(place)
        seen.add(tuple(pair))
    return np.array(again, np.int64)


def _hashes_of(table: pa.Table) -> Integers:
    found = np.empty(table.num_rows, np.int64)
    begin = 0
    for batch in table.select(["domain", "ip"]).to_batches():
        found[begin : begin + batch.num_rows] = hashes(*batch.columns)
        begin += batch.num_rows
    return found
