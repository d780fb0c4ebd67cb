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
        found = [hashes(*batch.columns) for batch in self._table.to_batches()]
        unsorted = np.concatenate(found) if found else np.empty(0, np.int64)
        self._order = np.argsort(unsorted, kind="stable")
        self._hashes = unsorted[self._order]

    def repeated(self) -> Integers:
        """Return the places of the rows whose name and address an earlier row has, ascending."""
        same = np.flatnonzero(self._hashes[1:] == self._hashes[:-1])
        places = np.sort(self._order[np.union1d(same, same + 1)])
        rows = self._table.take(pa.array(places))
        seen: set[tuple[str, str]] = set()
        again = []
        for place, *pair in zip(places, rows["domain"].to_pylist(), rows["ip"].to_pylist(), strict=True):
            if tuple(pair) in seen:
                again.append(place)
            seen.add(tuple(pair))
        return np.array(again, np.int64)

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
