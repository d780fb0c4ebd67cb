"""Compares the dissector's rows with the prober's: two programs that read the same packets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from firstflight.errors import InputError
from schemas import records

# Columns of the prober and of the dissector that must have the same values in an answered probe.
PROBER = ("client_cid", "outcome", "ack_pn", "sh_pn", "ack_delay_raw")
DISSECTOR = ("client_scid", "first_answer", "ack_pn", "sh_pn", "ack_delay_raw")
# Hex digits of the prober's connection IDs.
_DIGITS = 16
_BATCH = 65_536
_NO_NIBBLE = 0xFF

Words = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Agreement:
    """How many probes have a connection in the captures, and the client's connection IDs (hex) of those whose
    connections have other values."""

    compared: int
    differing: list[str]


def compare(probes: list[Path], connections: Path) -> Agreement:
    """Compare the rows of quic_probe files with those of quic_connection, by the client's connection ID.

    A probe of several attempts agrees if one of its connections does. Two pairs of rows that are not equal
    pass as such with a probability of 2^-64 each. InputError if a file cannot be read.
    """
    keys, rows = _words(connections, DISSECTOR)
    theirs = [_words(path, PROBER) for path in probes]
    probed, stated = (np.concatenate([part[at] for part in theirs] or [keys[:0]]) for at in (0, 1))
    known = _is_in(probed, keys)
    differing = np.unique(probed[known & ~_is_in(stated, rows)])
    return Agreement(int(known.sum()), [f"{key:0{_DIGITS}x}" for key in differing.tolist()])


def _words(path: Path, columns: tuple[str, ...]) -> tuple[Words, Words]:
    """Return the connection ID of each row as a number, and a hash of all `columns`.

    Rows whose connection ID has another length than the prober's are left out.
    """
    keys, hashes = [np.empty(0, np.uint64)], [np.empty(0, np.uint64)]
    for batch in _batches(path, columns):
        cids = batch.column(0)
        length = pc.binary_length(cids)
        batch = batch.filter(pc.fill_null(pc.equal(length, _DIGITS), False))
        key, is_hex = _numbers(batch.column(0))
        mixed = key.copy()
        for name, column in zip(columns[1:], batch.columns[1:], strict=True):
            _mix(mixed, _codes(column) if name in _OUTCOMES else _integers(column))
        keys.append(key[is_hex])
        hashes.append(mixed[is_hex])
    return np.concatenate(keys), np.concatenate(hashes)


_OUTCOMES = ("outcome", "first_answer")


def _batches(path: Path, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    try:
        with pq.ParquetFile(path, pre_buffer=False) as file:
            # Row group by row group: Arrow's own iteration keeps the data of all earlier groups.
            for group in range(file.num_row_groups):
                yield from file.iter_batches(
                    batch_size=_BATCH, row_groups=[group], columns=list(columns), use_threads=False
                )
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"cannot read {path}: {error}; run its stage with --again") from error


def _numbers(cids: pa.Array) -> tuple[Words, npt.NDArray[np.bool_]]:
    """Return connection IDs of `_DIGITS` hex digits as numbers, and which of them are hex."""
    if len(cids) == 0:
        return np.empty(0, np.uint64), np.empty(0, np.bool_)
    text = np.frombuffer(pa.concat_arrays([cids]).buffers()[2], np.uint8)
    first = int(np.frombuffer(cids.buffers()[1], np.int32)[cids.offset])
    digits = _NIBBLES[text[first : first + len(cids) * _DIGITS].reshape(-1, _DIGITS)]
    pairs = digits[:, ::2] << 4 | digits[:, 1::2]
    numbers = np.ascontiguousarray(pairs).view(">u8").ravel().astype(np.uint64)
    return numbers, (digits != _NO_NIBBLE).all(axis=1)


def _is_in(words: Words, among: Words) -> npt.NDArray[np.bool_]:
    """Return which of `words` are in `among`, which is sorted in place (`np.isin` copies both)."""
    if len(among) == 0:
        return np.zeros(len(words), np.bool_)
    among.sort()
    at = np.searchsorted(among, words)
    np.minimum(at, len(among) - 1, out=at)
    found: npt.NDArray[np.bool_] = among[at] == words
    return found


def _nibbles() -> npt.NDArray[np.uint8]:
    table = np.full(256, _NO_NIBBLE, np.uint8)
    for value, digit in enumerate(b"0123456789abcdef"):
        table[digit] = value
    return table


_NIBBLES = _nibbles()
_ANSWERS = pa.array(
    next(column for column in records.load("quic_probe").columns if column.name == "outcome").values
)


def _codes(answers: pa.Array) -> Words:
    return _integers(pc.index_in(answers, _ANSWERS))


def _integers(values: pa.Array) -> Words:
    """Return integers as words; null is like none of them."""
    filled = pc.fill_null(values.cast(pa.int64()), -1)
    return np.asarray(filled.to_numpy(zero_copy_only=False)).astype(np.uint64)


def _mix(words: Words, others: Words) -> None:
    """Mix `others` into `words` (the finalizer of splitmix64)."""
    words ^= others + np.uint64(0x9E3779B97F4A7C15)
    words *= np.uint64(0xBF58476D1CE4E5B9)
    words ^= words >> np.uint64(27)
    words *= np.uint64(0x94D049BB133111EB)
    words ^= words >> np.uint64(31)
