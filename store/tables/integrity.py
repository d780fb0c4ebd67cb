"""Compares every part of every table of the store with its checksums."""

from __future__ import annotations

from firstflight.errors import InputError
from store.base import Store
from store.sql import identifier


def check(store: Store) -> dict[str, int]:
    """Return table -> rows. InputError names the tables with a damaged part; reads the whole store."""
    tables = store.rows(
        "SELECT name, toInt64(ifNull(total_rows, 0)) AS n FROM system.tables "
        "WHERE database = {database:String} AND engine LIKE '%MergeTree' ORDER BY name",
        {"database": store.dialect.database},
    )
    damaged = []
    for table in tables:
        name = f"{store.dialect.database}.{identifier(str(table['name']))}"
        found = store.rows(f"CHECK TABLE {name} SETTINGS check_query_single_value_result = 0")
        damaged += [f"{table['name']} ({row['part_path']})" for row in found if not row["is_passed"]]
    if damaged:
        raise InputError(
            f"the store in {store.location} has damaged parts: {', '.join(damaged)}; check the disk, and "
            "restore a backup"
        )
    return {str(table["name"]): int(table["n"]) for table in tables}
