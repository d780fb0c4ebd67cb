"""Retention of rows: a TTL that drops whole months of a table; users set it, migrations never do."""

from __future__ import annotations

import re
from dataclasses import dataclass

from firstflight.errors import UsageError
from store.base import Store

_MONTHLY = re.compile(r"toYYYYMM\((?P<time>.*)\)", re.DOTALL)
_TTL = re.compile(r"\bTTL .*?\+ (?:toIntervalMonth\((?P<function>\d+)\)|INTERVAL (?P<literal>\d+) MONTH)")


@dataclass(frozen=True)
class Retention:
    """A table that is partitioned by month, and how many months its rows are kept (`None`: without limit)."""

    table: str
    months: int | None


def partitioned_tables(store: Store) -> list[Retention]:
    """Return all tables that are partitioned by month."""
    rows = store.rows(
        "SELECT name, partition_key, create_table_query AS made FROM system.tables "
        "WHERE database = {database:String} AND engine LIKE '%MergeTree' ORDER BY name",
        {"database": store.dialect.database},
    )
    found = []
    for row in rows:
        if _MONTHLY.fullmatch(row["partition_key"]):
            ttl = _TTL.search(row["made"])
            months = int(ttl["function"] or ttl["literal"]) if ttl else None
            found.append(Retention(store.dialect.table_of(row["name"]), months))
    return found


def keep(store: Store, table: str, months: int | None) -> None:
    """Keep rows of `table` for `months` from now on; the server drops older ones in the background.

    UsageError if the table is not partitioned by month.
    """
    known = {kept.table: kept.months for kept in partitioned_tables(store)}
    if table not in known:
        raise UsageError(f"{table} has no retention by month; tables that do: {', '.join(known) or 'none'}")
    stored = store.dialect.stored(table)
    name = store.dialect.render(f"ALTER TABLE ${{database}}.{stored} ${{on_cluster}}")
    if months is None:
        if known[table] is not None:
            store.execute(f"{name} REMOVE TTL")
        return
    (row,) = store.rows(
        "SELECT partition_key FROM system.tables "
        "WHERE database = {database:String} AND name = {table:String}",
        {"database": store.dialect.database, "table": stored},
    )
    time = _MONTHLY.fullmatch(row["partition_key"])
    assert time is not None  # it is among `partitioned_tables`
    # Whole parts only: a row is dropped when its whole month has expired.
    store.execute(f"{name} MODIFY SETTING ttl_only_drop_parts = 1")
    store.execute(f"{name} MODIFY TTL toDate({time['time']}) + toIntervalMonth({months})")
