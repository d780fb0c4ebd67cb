"""Compares the dissector's rows with the prober's: two programs that read the same packets.

Arrow is given neither plain numbers nor lists: to find out what these are, it imports pandas, which takes as
long as comparing 400,000 probes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
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
    """How many probes have a connection in the captures, the client's connection IDs (hex) of those whose
    connections have other values, and how many connections the captures have."""

    compared: int
    differing: list[str]
    connections: int


def compare(probes: list[Path], connections: Path) -> Agreement:
    """Compare the rows of quic_probe files with those of quic_connection, by the client's connection ID.

    A probe of several attempts agrees if one of its connections does. Two pairs of rows that are not equal
    pass as such with a probability of 2^-64 each. InputError if a file cannot be read.
    """
    keys, rows = _words(connections, DISSECTOR)
    keys.sort()
    rows.sort()
    theirs = [_words(path, PROBER) for path in probes]
    probed, stated = (np.concatenate([part[at] for part in theirs] or [keys[:0]]) for at in (0, 1))
    del theirs
    unequal = np.unique(probed[_is_in(stated, _missing(stated, rows))])
    differing = unequal[_is_in(unequal, keys)]
    compared = len(probed) - len(_missing(probed, keys))
    cids = [f"{key:0{_DIGITS}x}" for key in differing.tolist()]
    return Agreement(compared, cids, pq.read_metadata(connections).num_rows)


def _words(path: Path, columns: tuple[str, ...]) -> tuple[Words, Words]:
    """Return the connection ID of each row as a number, and a hash of all `columns`.

    Rows whose connection ID has another length than the prober's are left out.
    """
    keys, hashes = [np.empty(0, np.uint64)], [np.empty(0, np.uint64)]
    for batch in _batches(path, columns):
        cids = batch.column(0)
        fits = (np.diff(_offsets(cids)) == _DIGITS) & _is_valid(cids)
        if not fits.all():
            bits = pa.py_buffer(np.packbits(fits, bitorder="little"))
            batch = batch.filter(pa.Array.from_buffers(pa.bool_(), len(fits), [None, bits]))
        key, is_hex = _numbers(batch.column(0))
        mixed = key.copy()
        for name, column in zip(columns[1:], batch.columns[1:], strict=True):
            _mix(mixed, _codes(column) if name in _OUTCOMES else _integers(column))
        keys.append(key[is_hex])
        hashes.append(mixed[is_hex])
    return np.concatenate(keys), np.concatenate(hashes)


_OUTCOMES = ("outcome", "first_answer")


def _batches(path: Path, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    outcomes = [name for name in columns if name in _OUTCOMES]
    try:
        with pq.ParquetFile(path, pre_buffer=False, read_dictionary=outcomes) as file:
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
    first = int(_offsets(cids)[0])
    digits = _NIBBLES[text[first : first + len(cids) * _DIGITS].reshape(-1, _DIGITS)]
    pairs = digits[:, ::2] << 4 | digits[:, 1::2]
    numbers = np.ascontiguousarray(pairs).view(">u8").ravel().astype(np.uint64)
    if digits.max() != _NO_NIBBLE:
        return numbers, np.ones(len(cids), np.bool_)
    return numbers, (digits != _NO_NIBBLE).all(axis=1)


def _missing(words: Words, among: Words) -> Words:
    """Return those of `words` that are not in `among`, which is sorted.

    They are searched in order: each search then reads what the one before has read, instead of memory that is
    far from it.
    """
    if len(words) == 0 or len(among) == 0:
        return words
    in_order = np.sort(words)
    blocks = (in_order[at : at + _BATCH] for at in range(0, len(in_order), _BATCH))
    return np.concatenate([block[~_is_in(block, among)] for block in blocks])


def _is_in(words: Words, among: Words) -> npt.NDArray[np.bool_]:
    """Return which of `words` are in `among`, which is sorted."""
    if len(among) == 0:
        return np.zeros(len(words), np.bool_)
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
_ANSWERS = next(column for column in records.load("quic_probe").columns if column.name == "outcome").values


def _codes(answers: pa.DictionaryArray) -> Words:
    """Return the place of each text in the closed list of outcomes; null and others are like none of them."""
    known = [_ANSWERS.index(text) if text in _ANSWERS else -1 for text in answers.dictionary.to_pylist()]
    # The last place is that of null.
    places = np.array([*known, -1], np.int64)
    return places[_integers(answers.indices).view(np.int64)].view(np.uint64)


def _integers(values: pa.Array) -> Words:
    """Return integers as words; null is like none of them."""
    numbers = np.frombuffer(values.buffers()[1], values.type.to_pandas_dtype())
    words = numbers[values.offset : values.offset + len(values)].astype(np.int64)
    if values.null_count:
        words[~_is_valid(values)] = -1
    return words.view(np.uint64)


def _offsets(texts: pa.Array) -> npt.NDArray[np.int32]:
    """Return where each of `texts` begins in their bytes, and where the last one ends."""
    if len(texts) == 0:
        return np.zeros(1, np.int32)
    return np.frombuffer(texts.buffers()[1], np.int32)[texts.offset : texts.offset + len(texts) + 1]


def _is_valid(values: pa.Array) -> npt.NDArray[np.bool_]:
    """Return which of `values` are not null."""
    bits = values.buffers()[0]
    if bits is None:
        return np.ones(len(values), np.bool_)
    each = np.unpackbits(np.frombuffer(bits, np.uint8), bitorder="little")
    return each[values.offset : values.offset + len(values)].view(np.bool_)


def _mix(words: Words, others: Words) -> None:
    """Mix `others` into `words` (the finalizer of splitmix64)."""
    words ^= others + np.uint64(0x9E3779B97F4A7C15)
    words *= np.uint64(0xBF58476D1CE4E5B9)
    words ^= words >> np.uint64(27)
    words *= np.uint64(0x94D049BB133111EB)
    words ^= words >> np.uint64(31)
