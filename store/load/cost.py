"""Estimates the cost of decoding a record file before decoding values, and refuses files that cost too much.

A small Parquet file can decode to much data: pages are compressed, a dictionary has a long value once for
many rows, and runs of equal values or nulls need no space. The limits apply to a reader's memory, and
are far above the needs of files that firstflight writes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from store.load import pages

MAX_ROWS = 200_000_000
"""Rows in a file."""
MAX_VALUES = 1 << 24
"""A column's values in a row group: with lists, more than rows."""
MAX_PAGE_BYTES = 32 << 20
MAX_OPEN_BYTES = 256 << 20
"""Bytes in a row group: each column's dictionary and largest page, and all lists."""
MAX_PIECE_BYTES = 128 << 20
"""Bytes of the values that are decoded at a time."""
MAX_ROW_BYTES = 16 << 10
"""Bytes per row, as the mean of the rows that are decoded at a time."""
MAX_FIXED_BYTES = 64
"""Bytes of a value of fixed length."""

# This encoding stores only the end of a value that begins like the previous one, so 60,000 values of 1 MB fit
# into 100 kB.
_DELTA_BYTE_ARRAY = 7


class TooCostly(ValueError):
    """A file that needs more memory or time than any record file."""


@dataclass
class DecodingCost:
    """Rows of each row group to decode at a time, and the paths of columns with dictionaries."""

    rows: list[int] = field(default_factory=list)
    dictionaries: set[str] = field(default_factory=set)


def of_file(path: Path, file: pq.ParquetFile, most_rows: int) -> DecodingCost:
    """Walk all pages of an open file; at most `most_rows` rows are to be decoded at a time.

    TooCostly if a limit is exceeded, ValueError for an invalid page, OSError if the file cannot be read.
    """
    if file.metadata.num_rows > MAX_ROWS:
        raise TooCostly(f"it has more than {MAX_ROWS} rows")
    found = DecodingCost()
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        for group in range(file.metadata.num_row_groups):
            found.rows.append(_of_group(descriptor, file, group, most_rows, found.dictionaries))
    finally:
        os.close(descriptor)
    return found


def _of_group(
    descriptor: int, file: pq.ParquetFile, group: int, most_rows: int, dictionaries: set[str]
) -> int:
    """Check a row group; return the maximum number of rows to decode at a time."""
    metadata = file.metadata.row_group(group)
    kept = per_row = 0.0
    for number in range(metadata.num_columns):
        chunk, column = metadata.column(number), file.schema.column(number)
        if column.length > MAX_FIXED_BYTES:
            raise TooCostly(f"column {column.path} has values of {column.length} bytes each")
        if chunk.num_values > MAX_VALUES:
            raise TooCostly(f"column {column.path} has more than {MAX_VALUES} values in a row group")
        dictionary = largest = total = 0
        density = 0.0
        start = chunk.data_page_offset
        if chunk.has_dictionary_page and 0 < chunk.dictionary_page_offset < start:
            start = chunk.dictionary_page_offset
        for page in pages.of_chunk(descriptor, start, chunk.num_values):
            if page.size > MAX_PAGE_BYTES:
                raise TooCostly(f"column {column.path} has a page of {page.size} bytes")
            if page.type == pages.DICTIONARY:
                dictionary += page.size
                if column.physical_type == "BYTE_ARRAY":
                    dictionaries.add(column.path)
            elif page.type in pages.DATA:
                if page.values > MAX_VALUES:
                    raise TooCostly(f"column {column.path} has a page of more than {MAX_VALUES} values")
                if page.encoding == _DELTA_BYTE_ARRAY:
                    raise TooCostly(f"column {column.path} has the encoding DELTA_BYTE_ARRAY")
                largest, total = max(largest, page.size), total + page.size
                density = max(density, page.size / max(page.values, 1))
        # One row can hold a whole column of lists.
        kept += dictionary + (total if column.max_repetition_level else largest)
        per_row += density
        if kept > MAX_OPEN_BYTES:
            raise TooCostly(f"a row group takes more than {MAX_OPEN_BYTES} bytes before it is decoded")
    return max(1, min(most_rows, int(MAX_PIECE_BYTES / max(per_row, 1.0))))


def decoded(piece: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield a piece without dictionaries, in parts that take at most MAX_PIECE_BYTES.

    TooCostly if rows are longer than MAX_ROW_BYTES in the mean.
    """
    size = sum(_expanded(column) for column in piece.columns)
    if size > max(MAX_PIECE_BYTES // 2, piece.num_rows * MAX_ROW_BYTES):
        raise TooCostly(f"{piece.num_rows} of its rows take {size} bytes")
    if size > MAX_PIECE_BYTES:
        half = piece.num_rows // 2
        yield from decoded(piece.slice(0, half))
        yield from decoded(piece.slice(half))
        return
    columns = [_plain(column) for column in piece.columns]
    yield pa.RecordBatch.from_arrays(columns, names=piece.schema.names)


def _expanded(column: pa.Array) -> int:
    """Return how many bytes the values in a column with a dictionary take without it; 0 for other columns."""
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        column = column.flatten()
    if not pa.types.is_dictionary(column.type):
        return 0
    lengths = pc.binary_length(column.dictionary).cast(pa.int64())
    return int(pc.sum(lengths.take(column.indices)).as_py() or 0)


def _plain(column: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        return column.dictionary_decode()
    if pa.types.is_list(column.type) and pa.types.is_dictionary(column.type.value_type):
        return column.cast(pa.list_(column.type.value_type.value_type))
    return column
