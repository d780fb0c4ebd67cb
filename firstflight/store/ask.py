"""A person's question to the store."""

from __future__ import annotations

from firstflight.errors import UsageError
from firstflight.store import migrate
from firstflight.store.base import Store
from firstflight.store.errors import UNKNOWN_DATABASE, UNKNOWN_TABLE, StoreError
from firstflight.store.place import EmbeddedPlace, find, nothing_there, open_store


def confine(url: str | None = None) -> None:
    """Leave this process the folder of the embedded store that it will ask, for good, where the kernel can.

    For a process that has one thread and only asks. Nothing happens if a server is asked: it needs its
    connection, and the engine here sees answers only.
    """
    place = find(url)
    if isinstance(place, EmbeddedPlace) and not place.empty and not place.served():
        from firstflight.store.confine.process import confine

        confine(place.path)


def formatted(query: str, output_format: str, url: str | None = None) -> bytes:
    """The answer to `query` in one of ClickHouse's formats.

    StoreError: the engine refused, with its reason in one sentence. UsageError: the store holds no tables.
    """
    with open_store(url) as store:
        try:
            return store.formatted(query, output_format)
        except StoreError as error:
            if error.code in (UNKNOWN_TABLE, UNKNOWN_DATABASE) and _lacks_tables(store):
                raise UsageError(nothing_there(find(url))) from error
            raise


def _lacks_tables(store: Store) -> bool:
    return not migrate.applied(store)
