"""Reads a run's rows from the store, as they were in record files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from schemas import records
from store import Store
from store.sql import identifier, literal

if TYPE_CHECKING:
    import pyarrow as pa

_BATCH = 1 << 16


def kinds() -> list[records.Kind]:
    """Return the record kinds with rows that belong to a run and are loaded from record files."""
    found = map(records.load, records.stored_names())
    return [kind for kind in found if kind.file_columns and "run" in kind.unit]


def units(store: Store, kind: records.Kind, run: str) -> list[dict[str, Any]]:
    """Return the units in a run that have rows of `kind`, each as a dict with the unit's columns."""
    columns = ", ".join(map(identifier, kind.unit))
    return store.rows(
        f"SELECT DISTINCT {columns} FROM {_table(store, kind)} WHERE run = {{run:String}} ORDER BY {columns}",
        {"run": run},
    )


def read(store: Store, kind: records.Kind, unit: dict[str, Any]) -> Iterator[pa.Table]:
    """Yield a unit's rows in batches with the schema of a record file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = kind.arrow_schema()
    columns = ", ".join(identifier(column.name) for column in kind.file_columns)
    condition = " AND ".join(
        f"{identifier(name)} = {literal(value) if isinstance(value, str) else int(value)}"
        for name, value in unit.items()
    )
    text = f"SELECT {columns} FROM {_table(store, kind)} WHERE {condition}"
    with pq.ParquetFile(pa.BufferReader(store.formatted(text, "Parquet").content)) as file:
        for batch in file.iter_batches(_BATCH, use_threads=False):
            yield pa.Table.from_batches([batch]).cast(schema)


def run_row(store: Store, run: str) -> dict[str, Any] | None:
    """Return manifest and settings (JSON texts) of a run, with the name; `None` if the store lacks it."""
    found = store.rows(
        f"SELECT name, manifest, settings FROM {store.dialect.database}.run WHERE run = {{run:String}}",
        {"run": run},
    )
    return found[0] if found else None


def _table(store: Store, kind: records.Kind) -> str:
    return f"{store.dialect.database}.{identifier(kind.name)}"
