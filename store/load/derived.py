"""What the loader makes from rows it has loaded: the roll-up of probes, and the histories of origins.

The SQL stands in schemas/derived. A derived table is never added to: rows of a unit are deleted and made anew
from the unit's rows in the store, or the whole table is made anew, always before the loader's books say
`loaded`. So it cannot drift: a unit loaded twice, replaced, or broken off in the middle is derived again.
"""

from __future__ import annotations

from collections.abc import Sequence

from schemas import sql
from store import Store

# Record kind -> tables whose rows belong to a unit of that kind (they have its unit's columns).
BY_UNIT = {"quic_probe": ("probe_day", "probe_unit")}
# Record kind -> script of schemas/derived that makes whole tables anew.
WHOLE = {"as_prefix": "origins", "as_org": "organisations"}
# Names of a unit are grouped; groups beyond this go to disk, so memory does not grow with the unit. A single
# thread, as a second has buffers of its own (ten million names: 726 MB, not 566, for the same CPU time).
_BOUNDED = (
    "SETTINGS max_bytes_before_external_group_by = 67108864, max_bytes_ratio_before_external_group_by = 0, "
    "max_threads = 1"
)


def complete(store: Store, kind: str, unit: str, rows: int) -> bool:
    """Whether the roll-up tells of exactly `rows` rows of the unit that the SQL condition `unit` selects."""
    return kind not in BY_UNIT or _rolled_up(store, kind, unit) == rows


def remove(store: Store, kind: str, unit: str) -> None:
    """Delete what was derived from a unit."""
    for table in BY_UNIT.get(kind, ()):
        name = f"{store.dialect.database}.{table}"
        if store.rows(f"SELECT count() AS n FROM {name} WHERE {unit}")[0]["n"]:
            store.execute(f"ALTER TABLE {name} {_on_cluster(store)} DELETE WHERE {unit}")


def renew(store: Store, kind: str, units: Sequence[str]) -> None:
    """Derive anew from the rows that the units have in the store. `units`: SQL conditions, one per unit."""
    for unit in units:
        remove(store, kind, unit)
        for table in BY_UNIT.get(kind, ()):
            for statement in sql.derived(table, store.dialect, units=unit):
                store.execute(f"{statement}\n{_BOUNDED}")
    if kind in WHOLE and units:
        for statement in sql.derived(WHOLE[kind], store.dialect):
            store.execute(statement)


def _rolled_up(store: Store, kind: str, unit: str) -> int:
    table = f"{store.dialect.database}.{BY_UNIT[kind][0]}"
    return int(store.rows(f"SELECT sum(probes) AS n FROM {table} WHERE {unit}")[0]["n"])


def _on_cluster(store: Store) -> str:
    return store.dialect.render("${on_cluster}")
