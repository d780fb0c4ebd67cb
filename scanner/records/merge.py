"""Merges an engine's segments and the run's provenance into one record file; quic_probe.parquet in full."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from firstflight.as_map import Mapper
from firstflight.capture_files import CaptureRecord
from firstflight.errors import InputError
from firstflight.layout import StageKey
from firstflight.system import files
from scanner.backoff.pauses import Pause, paused_at
from scanner.driver import choose
from scanner.driver.mapped import rows_at
from schemas import records


@dataclass(frozen=True)
class Provenance:
    """The values that all rows of one probe stage share."""

    key: StageKey
    tool_version: str
    ruleset: str
    source_file: str
    clock_offset_us: int | None = None
    host: str | None = None
    worker: str | None = None  # of a schedule


def merge(
    segments: pa.Table,
    plan: pa.Table,
    provenance: Provenance,
    *,
    mapper: Mapper,
    captures: Sequence[CaptureRecord],
    capture_name: Callable[[str], str],
    last: pa.Array | None = None,
    pauses: Sequence[Pause] = (),
    slots: pa.Array | None = None,
) -> pa.Table:
    """Merge the prober's columns with the stage's, in the order of the record kind quic_probe.

    `segments` are rows of segments; `plan` is from choose, or for a watch one row per segment row, with
    `slots` as their slot numbers; `mapper` has AS and CDN of each address; `pauses` are those of networks;
    `captures` are the captures taken, oldest first, named in rows by `capture_name`; `last` is when the name
    and address of each row were probed before (ns), null if they were not.
    """
    own = own_rows(segments, plan) if slots is None else _checked(segments, plan)
    asn, cdn = origins(segments, mapper)
    length = segments.num_rows
    return in_order(
        "quic_probe",
        segments,
        {
            **stage_columns(provenance, own),
            "slot": pa.nulls(length, pa.uint32()) if slots is None else slots,
            "network_paused_at": paused_at(segments, asn, pauses),
            "address_rank": own["address_rank"],
            "asn": asn,
            "cdn": cdn,
            "since_last_probe_s": _since_last(segments, last),
            "capture_file": _capture_files(segments["sent_at"], captures, capture_name),
            "capture_cut": _capture_cuts(segments["sent_at"], captures),
        },
    )


def own_rows(segments: pa.Table, plan: pa.Table) -> pa.Table:
    """Return the row of the plan (choose) of each row of segments.

    InputError if the segments are of another plan.
    """
    places = segments["target"].to_numpy().astype(np.int64) - choose.FIRST_LINE
    return _checked(segments, rows_at(plan, places))


def stage_columns(provenance: Provenance, own: pa.Table) -> dict[str, Any]:
    """Return the columns that a stage adds to the rows of any engine: whose they are, and their provenance.

    `own` has list_id, rank and resolver of each row.
    """
    same: dict[str, tuple[Any, pa.DataType]] = {
        "run": (provenance.key.run, pa.string()),
        "vantage": (provenance.key.vantage, pa.string()),
        "repetition": (provenance.key.repetition, pa.uint16()),
        "clock_offset_us": (provenance.clock_offset_us, pa.int64()),
        "tool_version": (provenance.tool_version, pa.string()),
        "host": (provenance.host, pa.string()),
        "worker": (provenance.worker, pa.string()),
        "ruleset": (provenance.ruleset, pa.string()),
        "source_file": (provenance.source_file, pa.string()),
    }
    columns = {
        name: pa.repeat(pa.scalar(value, type_), own.num_rows) for name, (value, type_) in same.items()
    }
    return columns | {name: own[name] for name in ("list_id", "rank", "resolver")}


def in_order(kind: str, segments: pa.Table, stage: dict[str, Any]) -> pa.Table:
    """Return the columns of a record file of `kind`, each from the segments or else from the stage."""
    schema = records.load(kind).arrow_schema()
    columns = [
        (segments[field.name] if field.name in segments.column_names else stage[field.name])
        for field in schema
    ]
    return pa.Table.from_arrays(columns, names=schema.names).cast(schema)


def write(tables: Iterable[pa.Table], path: Path, kind: str = "quic_probe") -> int:
    """Write the record file in one step, with a row group for each table; return the number of rows."""
    schema, rows = records.load(kind).arrow_schema(), 0
    with files.replacing(path) as temporary, pq.ParquetWriter(temporary, schema, compression="zstd") as out:
        for table in tables:
            out.write_table(table)
            rows += table.num_rows
    return rows


def _checked(segments: pa.Table, own: pa.Table) -> pa.Table:
    for column in ("domain", "ip"):
        if not own[column].combine_chunks().equals(segments[column].combine_chunks()):
            raise InputError(f"the segments' column {column} does not match targets.csv")
    return own


def origins(segments: pa.Table, mapper: Mapper) -> tuple[pa.Array, pa.Array]:
    """Return AS and CDN of each row: of the AS that the engine returns, or by address where it has none."""
    if "asn" in segments.column_names:
        asns = segments["asn"].combine_chunks()
    else:
        ips = segments["ip"].combine_chunks().dictionary_encode()
        asns = _of_each(ips, mapper.asn, pa.uint32())
    return asns, _of_each(asns.dictionary_encode(), mapper.cdn, pa.string())


def _of_each(values: pa.DictionaryArray, function: Callable[[Any], Any], type_: pa.DataType) -> pa.Array:
    """Return `function` of each value, called once for values that are alike."""
    return pa.array(map(function, values.dictionary.to_pylist()), type_).take(values.indices)


def _capture_files(
    sent_at: pa.ChunkedArray, captures: Sequence[CaptureRecord], name: Callable[[str], str]
) -> pa.Array:
    """Return the capture of each probe: the last one started before it was sent. Null if nothing was sent."""
    return _of_captures(sent_at, captures, pa.string(), lambda record: name(record.file))


def _capture_cuts(sent_at: pa.ChunkedArray, captures: Sequence[CaptureRecord]) -> pa.Array:
    """Return how many packets the capture of each probe lacks because of its size limit; null if unknown."""
    return _of_captures(sent_at, captures, pa.int64(), lambda record: record.cut)


def _of_captures(
    sent_at: pa.ChunkedArray,
    captures: Sequence[CaptureRecord],
    type_: pa.DataType,
    value: Callable[[CaptureRecord], Any],
) -> pa.Array:
    """Return `value` of the capture of each probe: the last one started before the probe was sent."""
    result: pa.Array = pa.nulls(len(sent_at), type_)
    for record in captures:
        after = pc.greater_equal(sent_at, record.started_ns)
        result = pc.if_else(after, pa.scalar(value(record), type_), result)
    combined: pa.Array = result.combine_chunks() if isinstance(result, pa.ChunkedArray) else result
    return combined


def _since_last(segments: pa.Table, last: pa.Array | None) -> pa.Array:
    """Return the seconds since the last probe of the same name and address, as float32; null without one."""
    if last is None:
        return pa.nulls(segments.num_rows, pa.float32())
    nanoseconds = pc.subtract(segments["sent_at"].combine_chunks(), last)
    seconds: pa.Array = pc.divide(nanoseconds.cast(pa.float64()), 1e9).cast(pa.float32())
    return seconds
