"""A list's distinct targets, on disk, so that memory does not grow with the list.

Blocks of targets are in one file. A second file contains the sorted hashes of each block's names. Equal names
have equal hashes, so all entries for a name are in the same part of each block's hashes.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from firstflight.system import files

# Number of targets in a block, which are in memory at a time. Larger blocks leave holes in the heap.
BLOCK = 8_192
# Hashes are compared in this many parts. The first byte selects the part.
_PARTS = 256
_BOUNDS = np.arange(1, _PARTS, dtype=np.uint64) << np.uint64(56)
# Marks a missing bucket. Ranks and buckets start at 1.
_NO_BUCKET = 0
_SCHEMA = pa.schema([("rank", pa.uint32()), ("domain", pa.string()), ("rank_bucket", pa.uint32())])
_HASH = np.dtype([("high", ">u8"), ("low", ">u8")])
_ENTRY = np.dtype([("high", "u8"), ("low", "u8"), ("place", "u8"), ("bucket", "u4")])

Integers = npt.NDArray[np.int64]


class Target(NamedTuple):
    """One name of the list. `rank` is `None` if the list has only buckets; `rank_bucket` if only ranks."""

    rank: int | None
    domain: str
    rank_bucket: int | None = None


class DistinctTargets:
    """Targets in the order of addition. Keeps the first of repeated names, with their smallest bucket.

    Ranks and buckets are from 1 to 2^32 - 1, or `None`. Names count as equal if their 128-bit BLAKE2b hashes
    are equal. The probability of a collision among 300 million names is 10^-22.

    Memory holds a block, 1/256 of the list's hashes, and 20 bytes for each repeated name.
    """

    def __init__(self, targets: Iterable[Target] = (), scratch: Path | None = None) -> None:
        """`scratch`: a folder for temporary files of at least 60 bytes per name (default: TMPDIR).

        The files are unnamed, so they disappear with the process.
        """
        self._scratch = scratch or Path(tempfile.gettempdir())
        with files.explain_os_errors(self._scratch):
            self._rows = tempfile.TemporaryFile(dir=self._scratch)  # noqa: SIM115  open for the object's lifetime
            self._entries = tempfile.TemporaryFile(dir=self._scratch)  # noqa: SIM115
        self._writer = pa.ipc.new_stream(pa.PythonFile(self._rows, "w"), _SCHEMA)
        # The offsets in the file of hashes: the start of each part of each block, and the end of the last
        # part.
        self._bounds: list[Integers] = []
        self._ranks: list[int | None] = []
        self._names: list[str] = []
        self._buckets: list[int | None] = []
        self._salt = os.urandom(blake2b.SALT_SIZE)
        self._added = 0
        self._is_complete = False
        self._dropped = np.empty(0, np.int64)
        self._lowered = np.empty(0, np.int64), np.empty(0, np.uint32)
        for target in targets:
            self.append(target)

    def append(self, target: Target) -> None:
        """Add a target at the end, before any is read. Raise OutputError if the disk is full."""
        assert not self._is_complete
        self._ranks.append(target.rank)
        self._names.append(target.domain)
        self._buckets.append(target.rank_bucket)
        if len(self._names) == BLOCK:
            self._write_block()

    def tables(self) -> Iterator[pa.Table]:
        """Yield the targets in tables of at most BLOCK rows: rank, domain, rank_bucket."""
        self._complete()
        begin = 0
        with pa.OSFile(f"/proc/self/fd/{self._rows.fileno()}", "rb") as source:
            for batch in pa.ipc.open_stream(source):
                end = begin + batch.num_rows
                yield self._without_repeats(pa.Table.from_batches([batch]), begin, end)
                begin = end

    def repeated(self) -> int:
        """Return the number of added targets with a repeated name."""
        self._complete()
        return len(self._dropped)

    def __len__(self) -> int:
        self._complete()
        return self._added - len(self._dropped)

    def __iter__(self) -> Iterator[Target]:
        for table in self.tables():
            yield from map(Target, *(table[name].to_pylist() for name in Target._fields))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DistinctTargets | list):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]  # mutable

    def __repr__(self) -> str:
        return f"DistinctTargets({list(self)!r})"

    def _write_block(self) -> None:
        """Write the waiting targets and the hashes of their names."""
        columns = (self._ranks, self._names, self._buckets)
        rows = pa.record_batch(
            [pa.array(values, field.type) for values, field in zip(columns, _SCHEMA, strict=True)],
            schema=_SCHEMA,
        )
        hashes = np.frombuffer(b"".join(map(self._hash, self._names)), _HASH)
        entries = np.empty(len(hashes), _ENTRY)
        entries["high"], entries["low"] = hashes["high"], hashes["low"]
        entries["place"] = np.arange(self._added, self._added + len(hashes))
        entries["bucket"] = rows["rank_bucket"].fill_null(_NO_BUCKET).to_numpy()
        entries = entries[np.argsort(entries["high"], kind="stable")]
        parts = np.searchsorted(entries["high"], _BOUNDS)
        bounds = np.concatenate([[0], parts, [len(entries)]]).astype(np.int64)
        self._bounds.append(self._added + bounds)
        with files.explain_os_errors(self._scratch):
            self._writer.write_batch(rows)
            self._entries.write(entries.tobytes())
        self._added += len(entries)
        for column in columns:
            column.clear()

    def _hash(self, name: str) -> bytes:
        return blake2b(name.encode(), digest_size=16, salt=self._salt).digest()

    def _complete(self) -> None:
        """Find the repeated names after all targets have been added."""
        if self._is_complete:
            return
        if self._names:
            self._write_block()
        self._is_complete = True
        with files.explain_os_errors(self._scratch):
            self._writer.close()
            self._rows.flush()
            self._entries.flush()
        parts = [_repeated(self._part(number)) for number in range(_PARTS)]
        self._entries.close()
        self._bounds.clear()
        dropped, lowered, bucket = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        self._dropped = np.sort(dropped)
        order = np.argsort(lowered)
        self._lowered = lowered[order], bucket[order]

    def _part(self, number: int) -> npt.NDArray[np.void]:
        """Return one part of the hashes from every block."""
        pieces = [np.empty(0, _ENTRY)]
        for bounds in self._bounds:
            begin, end = bounds[number : number + 2] * _ENTRY.itemsize
            pieces.append(np.frombuffer(os.pread(self._entries.fileno(), end - begin, begin), _ENTRY))
        return np.concatenate(pieces)

    def _without_repeats(self, table: pa.Table, begin: int, end: int) -> pa.Table:
        """Return the rows from position `begin` up to, but not including, `end`, without repeated names."""
        places, buckets = (values[_slice_of(self._lowered[0], begin, end)] for values in self._lowered)
        if len(places):
            ranks = table["rank_bucket"].fill_null(_NO_BUCKET).to_numpy().copy()
            ranks[places - begin] = buckets
            index = table.schema.get_field_index("rank_bucket")
            table = table.set_column(index, _SCHEMA.field(index), pa.array(ranks, mask=ranks == _NO_BUCKET))
        dropped = self._dropped[_slice_of(self._dropped, begin, end)]
        if not len(dropped):
            return table
        is_kept = np.ones(end - begin, dtype=bool)
        is_kept[dropped - begin] = False
        return table.filter(pa.array(is_kept))


def _repeated(entries: npt.NDArray[np.void]) -> tuple[Integers, Integers, npt.NDArray[np.uint32]]:
    """Return the positions to drop, the positions whose bucket changes, and the new buckets.

    A repeated name keeps its first position, with the smallest of its buckets.
    """
    entries = entries[np.lexsort((entries["place"], entries["low"], entries["high"]))]
    high, low = entries["high"], entries["low"]
    is_repeated = np.zeros(len(entries), dtype=bool)
    is_repeated[1:] = (high[1:] == high[:-1]) & (low[1:] == low[:-1])
    dropped = entries["place"][is_repeated].astype(np.int64)
    if not len(dropped):
        return dropped, np.empty(0, np.int64), np.empty(0, np.uint32)
    # Subtracting 1 makes a missing bucket the largest number.
    buckets = entries["bucket"] - np.uint32(1)
    first = np.flatnonzero(~is_repeated)
    smallest = np.minimum.reduceat(buckets, first)
    lowered = smallest < buckets[first]
    places = entries["place"][first[lowered]].astype(np.int64)
    return dropped, places, smallest[lowered] + np.uint32(1)


def _slice_of(values: Integers, begin: int, end: int) -> slice:
    first, last = np.searchsorted(values, [begin, end])
    return slice(int(first), int(last))
