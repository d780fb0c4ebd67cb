"""Runs a user's query on the store."""

from __future__ import annotations

from firstflight.errors import UsageError
from store.base import FormattedAnswer, Store
from store.errors import UNKNOWN_DATABASE, UNKNOWN_TABLE, StoreError
from store.location import find, no_tables, open_store
from store.tables import migrate


def formatted(query: str, output_format: str, url: str | None = None) -> FormattedAnswer:
    """Return the answer to `query` in a format of ClickHouse.

    StoreError gives the engine's reason for a refusal. UsageError: the store has no tables.
    """
    with open_store(url) as store:
        try:
            return store.formatted(query, output_format)
        except StoreError as error:
            if error.code in (UNKNOWN_TABLE, UNKNOWN_DATABASE) and _lacks_tables(store):
                raise UsageError(no_tables(find(url))) from error
            raise


def _lacks_tables(store: Store) -> bool:
    return not migrate.applied(store)
