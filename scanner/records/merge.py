"""Merges an engine's segments and the run's provenance to a record file; the whole of quic_probe.parquet."""

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
from schemas import records

# The column of a plan with the times of `last_probes`.
LAST_PROBE = "last_probe"


@dataclass(frozen=True)
class StageProvenance:
    """The values that all rows from a probe stage share."""

    key: StageKey
    tool_version: str
    ruleset: str
    source_file: str
    clock_offset_us: int | None = None
    host: str | None = None
    worker: str | None = None  # name of the schedule's worker


def merge(
    segments: pa.Table,
    plan: pa.Table,
    provenance: StageProvenance,
    *,
    mapper: Mapper,
    captures: Sequence[CaptureRecord],
    capture_name: Callable[[str], str],
    pauses: Sequence[Pause] = (),
    slots: pa.Array | None = None,
) -> pa.Table:
    """Merge the prober's columns with the stage's, in the order of the record kind quic_probe.

    `segments`: rows of segments. `plan`: from choose, with the column LAST_PROBE unless no pair was probed
    before; or for a watch one row per segment row, with their slot numbers in `slots`. `mapper`: returns AS
    and CDN of an address. `pauses`: pauses of networks. `captures`: the captures, oldest first;
    `capture_name` returns their names in rows.
    """
    plan_rows = own_rows(segments, plan) if slots is None else _checked(segments, plan)
    asn, cdn = origins(segments, mapper)
    length = segments.num_rows
    return ordered_columns(
        "quic_probe",
        segments,
        {
            **stage_columns(provenance, plan_rows),
            "slot": pa.nulls(length, pa.uint32()) if slots is None else slots,
            "network_paused_at": paused_at(segments, asn, pauses),
            "address_rank": plan_rows["address_rank"],
            "asn": asn,
            "cdn": cdn,
            "since_last_probe_s": _since_last(segments["sent_at"], plan_rows),
            "capture_file": _capture_files(segments["sent_at"], captures, capture_name),
            "capture_cut": _capture_cuts(segments["sent_at"], captures),
        },
    )


def own_rows(segments: pa.Table, plan: pa.Table) -> pa.Table:
    """Return the plan's row (choose) for each row of segments.

    Raise InputError if the segments belong to another plan.
    """
    indices = segments["target"].to_numpy().astype(np.int64) - choose.FIRST_LINE
    return _checked(segments, plan.take(pa.array(indices)))


def stage_columns(provenance: StageProvenance, plan_rows: pa.Table) -> dict[str, Any]:
    """Return the columns that a stage adds to any engine's rows: identity and provenance.

    `plan_rows` has list_id, rank and resolver of each row.
    """
    constants: dict[str, tuple[Any, pa.DataType]] = {
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
        name: pa.repeat(pa.scalar(value, type_), plan_rows.num_rows)
        for name, (value, type_) in constants.items()
    }
    return columns | {name: plan_rows[name] for name in ("list_id", "rank", "resolver")}


def ordered_columns(kind: str, segments: pa.Table, stage: dict[str, Any]) -> pa.Table:
    """Return the columns in a record file of `kind`, from the segments or else from the stage."""
    schema = records.load(kind).arrow_schema()
    columns = [
        (segments[field.name] if field.name in segments.column_names else stage[field.name])
        for field in schema
    ]
    return pa.Table.from_arrays(columns, names=schema.names).cast(schema)


def write(tables: Iterable[pa.Table], path: Path, kind: str = "quic_probe") -> int:
    """Write the record file atomically, with a row group for each table. Return the number of rows."""
    schema, rows = records.load(kind).arrow_schema(), 0
    with (
        files.replacing(path) as temporary,
        pq.ParquetWriter(temporary, schema, compression="zstd") as writer,
    ):
        for table in tables:
            writer.write_table(table)
            rows += table.num_rows
    return rows


def _checked(segments: pa.Table, plan_rows: pa.Table) -> pa.Table:
    for column in ("domain", "ip"):
        if not plan_rows[column].combine_chunks().equals(segments[column].combine_chunks()):
            raise InputError(f"the segments' column {column} does not match targets.csv")
    return plan_rows


def origins(segments: pa.Table, mapper: Mapper) -> tuple[pa.Array, pa.Array]:
    """Return AS and CDN of each row. The AS is from the engine, or looked up if the engine returns no AS."""
    if "asn" in segments.column_names:
        asns = segments["asn"].combine_chunks()
    else:
        ips = segments["ip"].combine_chunks().dictionary_encode()
        asns = _map_values(ips, mapper.asn, pa.uint32())
    return asns, _map_values(asns.dictionary_encode(), mapper.cdn, pa.string())


def _map_values(values: pa.DictionaryArray, function: Callable[[Any], Any], type_: pa.DataType) -> pa.Array:
    """Return `function` of each value, called once per distinct value."""
    return pa.array(map(function, values.dictionary.to_pylist()), type_).take(values.indices)


def _capture_files(
    sent_at: pa.ChunkedArray, captures: Sequence[CaptureRecord], name: Callable[[str], str]
) -> pa.Array:
    """Return the capture of each probe: the last one started before the probe. Null if nothing was sent."""
    return _of_captures(sent_at, captures, pa.string(), lambda record: name(record.file))


def _capture_cuts(sent_at: pa.ChunkedArray, captures: Sequence[CaptureRecord]) -> pa.Array:
    """Return how many packets each probe's capture lacks due to the size limit; null if unknown."""
    return _of_captures(sent_at, captures, pa.int64(), lambda record: record.cut)


def _of_captures(
    sent_at: pa.ChunkedArray,
    captures: Sequence[CaptureRecord],
    type_: pa.DataType,
    value: Callable[[CaptureRecord], Any],
) -> pa.Array:
    """Return `value` of each probe's capture: the last capture that started before the probe was sent."""
    result: pa.Array = pa.nulls(len(sent_at), type_)
    for record in captures:
        after = pc.greater_equal(sent_at, record.started_ns)
        result = pc.if_else(after, pa.scalar(value(record), type_), result)
    combined: pa.Array = result.combine_chunks() if isinstance(result, pa.ChunkedArray) else result
    return combined


def _since_last(sent_at: pa.ChunkedArray, plan_rows: pa.Table) -> pa.Array | pa.ChunkedArray:
    """Return the seconds since the last probe of the same name and address, as float32; null without one."""
    if LAST_PROBE not in plan_rows.column_names:
        return pa.nulls(len(sent_at), pa.float32())
    nanoseconds = pc.subtract(sent_at, plan_rows[LAST_PROBE])
    return pc.divide(nanoseconds.cast(pa.float64()), 1e9).cast(pa.float32())
