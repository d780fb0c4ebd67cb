"""Tables that the loader derives from loaded rows: the roll-up of probes, and the histories of origins.

The SQL is in schemas/derived. A derived table is never appended to: the loader deletes a unit's rows and
computes them again from the unit's rows in the store, or recreates the whole table, always before the load
log records `loaded`. So derived rows never diverge when a unit is loaded twice, replaced or interrupted.
"""

from __future__ import annotations

from collections.abc import Sequence

from schemas import sql
from store import Store

# Record kind -> tables with rows for each of the kind's units (they have the unit's columns).
BY_UNIT = {"quic_probe": ("probe_day", "probe_unit")}
# Record kind -> script of schemas/derived that recreates whole tables.
WHOLE = {"as_prefix": "origins", "as_org": "organisations"}
# A unit's names are grouped; beyond this limit groups go to disk, so memory does not grow with the unit. One
# thread, because a second one needs its own buffers (ten million names: 726 MB, not 566, for the same CPU
# time).
_BOUNDED = (
    "SETTINGS max_bytes_before_external_group_by = 67108864, max_bytes_ratio_before_external_group_by = 0, "
    "max_threads = 1"
)


def complete(store: Store, kind: str, unit: str, rows: int) -> bool:
    """Return whether the roll-up covers exactly `rows` rows of the unit that the SQL condition selects."""
    return kind not in BY_UNIT or _rolled_up(store, kind, unit) == rows


def remove(store: Store, kind: str, unit: str) -> None:
    """Delete the rows that were derived from a unit."""
    for table in BY_UNIT.get(kind, ()):
        name = f"{store.dialect.database}.{table}"
        store.catch_up(table)  # rows that another loader derived from the unit
        if store.rows(f"SELECT count() AS n FROM {name} WHERE {unit}")[0]["n"]:
            store.execute(f"ALTER TABLE {name} {_on_cluster(store)} DELETE WHERE {unit}")


def renew(store: Store, kind: str, units: Sequence[str]) -> None:
    """Derive the rows of units again from their rows in the store. `units`: one SQL condition per unit."""
    for unit in units:
        remove(store, kind, unit)
        for table in BY_UNIT.get(kind, ()):
            for statement in sql.derived(table, store.dialect, units=unit):
                store.execute(f"{statement}\n{_BOUNDED}")
    if kind in WHOLE and units:
        for statement in sql.derived(WHOLE[kind], store.dialect):
            store.execute(statement)


def _rolled_up(store: Store, kind: str, unit: str) -> int:
    table = BY_UNIT[kind][0]
    store.catch_up(table)
    counted = store.rows(f"SELECT sum(probes) AS n FROM {store.dialect.database}.{table} WHERE {unit}")
    return int(counted[0]["n"])


def _on_cluster(store: Store) -> str:
    return store.dialect.render("${on_cluster}")
