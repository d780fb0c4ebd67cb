"""The runs, vantage points and CDNs that a store has, to tell a typing error from an answer without rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from firstflight.as_map import OTHERS
from firstflight.cdn import rules
from firstflight.errors import UsageError
from firstflight.suggestion import did_you_mean
from reports.chosen_run import NEWEST
from schemas import records
from store import Store
from store.errors import UNKNOWN_TABLE, StoreError
from store.sql import identifier, literal
from store.tables import migrate

_MOST_SHOWN = 8


def check(store: Store, given: Mapping[str, str]) -> None:
    """Raise UsageError if `given` has a run, vantage point or CDN that is not in the store.

    A CDN of firstflight's own rules is always accepted.
    """
    for name, (noun, known) in _KNOWN.items():
        value = given.get(name, "")
        if not value or (name == "run" and value == NEWEST):
            continue
        known_values = known(store, value)
        if value not in known_values:
            raise UsageError(
                f"the store in {store.location} has no {noun} {value!r}{_known_text(value, known_values)}"
            )


def _known_text(value: str, known_values: set[str]) -> str:
    suggestion = did_you_mean(value, known_values)
    if suggestion or not known_values:
        return suggestion or "; it has none"
    shown = sorted(known_values)[-_MOST_SHOWN:]
    return f"; it has {', '.join(shown)}" + (
        f" and {len(known_values) - len(shown)} others" if known_values - set(shown) else ""
    )


def _runs(store: Store, _: str) -> set[str]:
    database = store.dialect.database
    return _values(
        store,
        f"SELECT DISTINCT run AS value FROM {database}.load_file WHERE run != '' "
        f"UNION DISTINCT SELECT run FROM {database}.run "
        f"UNION DISTINCT SELECT run FROM {database}.probe_day_all",
    )


def _vantages(store: Store, _: str) -> set[str]:
    database = store.dialect.database
    among = ", ".join(map(literal, _kinds_of_vantages()))
    return _values(
        store,
        f"SELECT DISTINCT JSONExtractString(unit, 2) AS value FROM {database}.load_file "
        f"WHERE kind IN ({among}) "
        f"UNION DISTINCT SELECT vantage FROM {database}.probe_day_all",
    )


def _cdns(store: Store, value: str) -> set[str]:
    of_rules = {OTHERS, *(rule.cdn for rule in rules.load(None))}
    if value in of_rules:
        return of_rules
    database = store.dialect.database
    probed = _values(
        store, f"SELECT DISTINCT cdn AS value FROM {database}.probe_day_all WHERE cdn IS NOT NULL"
    )
    if value in probed:
        return probed
    # Last, because these are tables of records, which may be long.
    columns = [
        (kind, column.name)
        for kind in _kinds_of_vantages()
        if kind != "quic_probe"  # its CDNs are in the roll-up
        for column in records.load(kind).columns
        if column.name == "cdn" or column.name.startswith("cdn_by_")
    ]
    parts = (
        f"SELECT DISTINCT toString({identifier(column)}) AS value FROM {database}.{kind} "
        f"WHERE {kind}.{identifier(column)} IS NOT NULL"
        for kind, column in columns
    )
    return of_rules | probed | _values(store, " UNION DISTINCT ".join(parts))


def _kinds_of_vantages() -> list[str]:
    """Return the record kinds with rows of vantage points."""
    return [name for name in records.stored_names() if records.load(name).unit[1:2] == ("vantage",)]


def _values(store: Store, text: str) -> set[str]:
    try:
        return {str(row["value"]) for row in store.rows(text)}
    except StoreError as error:
        if error.code == UNKNOWN_TABLE and migrate.pending(store):
            raise UsageError(migrate.outdated(store)) from error
        raise


_KNOWN: Mapping[str, tuple[str, Callable[[Store, str], set[str]]]] = {
    "run": ("run", _runs),
    "vantage": ("vantage point", _vantages),
    "cdn": ("CDN", _cdns),
}
