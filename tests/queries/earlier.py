"""A store as an earlier version of firstflight made it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from schemas import records, sql
from store import Store, open_store
from store.tables import migrate


@contextmanager
def store_with(migrations: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """Open the test's store with only the first `migrations` migrations and no views."""
    every = sql.migrations()
    with monkeypatch.context() as then, open_store(write=True) as store:
        then.setattr(sql, "migrations", lambda: every[:migrations])
        then.setattr(sql, "views", list)
        then.setattr(records, "names", list)
        migrate.migrate(store)
        yield store
