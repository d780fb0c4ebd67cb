"""Gives answers in Parquet the types that pandas, polars and DuckDB read alike.

The engine writes an enumeration with Parquet's type ENUM, which pyarrow and pandas read as bytes. It writes
an instant with the column's unit, which may be milliseconds.
"""

from __future__ import annotations

import io
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = "Parquet"


def readable(content: bytes) -> bytes:
    """Return a Parquet file with enumerations as strings, and instants as timestamps (ns, UTC).

    A file without such columns is returned as it is. If an instant is outside the years 1677 to 2262, the
    range of nanoseconds in 64 bits, all instants keep the units of their columns.
    """
    # Imported late: only this format needs it.
    import pyarrow as pa
    import pyarrow.parquet as pq

    source = pq.ParquetFile(pa.BufferReader(content))
    given = source.schema_arrow
    for to_type in (_typed, partial(_typed, instants=False)):
        schema = pa.schema([field.with_type(to_type(field.type)) for field in given])
        if schema.equals(given):
            return content
        out = io.BytesIO()
        try:
            with pq.ParquetWriter(out, schema, compression="zstd") as writer:
                for group in range(source.num_row_groups):
                    for batch in source.iter_batches(row_groups=[group], use_threads=False):
                        writer.write_batch(batch.cast(schema))
        except pa.ArrowInvalid:
            continue
        return out.getvalue()
    return content


def _typed(of: pa.DataType, *, instants: bool = True) -> pa.DataType:
    import pyarrow as pa

    if pa.types.is_binary(of):
        return pa.string()
    if instants and pa.types.is_timestamp(of) and of.tz is not None:
        return pa.timestamp("ns", "UTC")
    if pa.types.is_list(of):
        return pa.list_(of.value_field.with_type(_typed(of.value_type, instants=instants)))
    return of
