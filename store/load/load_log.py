"""The load log (`load_file`): the file, and its origin, from which each unit was loaded."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from store import Store
from store.sql import literal


def table(store: Store) -> str:
    """Return the name of the load log in SQL."""
    return f"{store.dialect.database}.load_file"


def unit_text(unit: Sequence[str]) -> str:
    """Return a unit as text, as in the load log and in leases."""
    return json.dumps(unit, ensure_ascii=False)


def enter(store: Store, values: Mapping[str, Any]) -> None:
    """Write a row of the load log; `values` has all its columns, times in ns."""
    store.execute(
        f"INSERT INTO {table(store)} ({', '.join(values)}) SELECT "
        + ", ".join(_value(name, value) for name, value in values.items())
    )


def merge(store: Store) -> None:
    """Merge the load log of an embedded store into one part; a server merges it in the background.

    Each entry is a part, and each read combines all parts. Loads are often too short for background merges.
    """
    if not store.shared:
        store.execute(f"OPTIMIZE TABLE {table(store)} FINAL SETTINGS optimize_skip_merged_partitions = 1")


def may_have_rows(row: Mapping[str, Any]) -> bool:
    """Return whether the store may have rows for an entry, for example of an interrupted load."""
    return bool(row["rows"]) or row["state"] != "loaded"


def of_site(store: Store, runs: Sequence[str], but: str) -> list[dict[str, Any]]:
    """Return an entry for each of `runs` that was loaded from the site's own folder, except origin `but`."""
    if not runs:
        return []
    return store.rows(
        f"SELECT run, any(source_file) AS source_file FROM {table(store)} FINAL "
        f"WHERE run IN ({', '.join(map(literal, runs))}) AND startsWith(origin, 'run:') "
        "AND origin != {but:String} AND (rows > 0 OR state != 'loaded') GROUP BY run ORDER BY run",
        {"but": but},
    )


def _value(name: str, value: object) -> str:
    if value is None:
        return f"NULL AS {name}"
    if name in ("first_at", "last_at"):
        return f"fromUnixTimestamp64Nano(toInt64({value}), 'UTC') AS {name}"
    return f"{value if isinstance(value, int) else literal(str(value))} AS {name}"
