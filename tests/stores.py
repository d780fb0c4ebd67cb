"""Stores for tests: a template with all tables, created once per process and copied; queries in this process.

The creation of the tables costs two CPU seconds, a copy 0.1. `firstflight sql` costs one second, a query in
this process 0.2.
"""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from store import ask, open_store
from store.engine import access
from store.engine.session import EngineSession
from store.tables import migrate


@cache
def template() -> Path:
    """Return the folder of a store with all tables and no rows."""
    parent = Path(tempfile.mkdtemp(prefix="firstflight-tables."))
    atexit.register(shutil.rmtree, parent, ignore_errors=True)
    folder = parent / "store"
    with open_store(f"chdb:{folder}", write=True) as store:
        migrate.migrate(store)
    return folder


def with_tables(folder: Path) -> str:
    """Copy the template to `folder`, which does not exist yet; return the store's address."""
    shutil.copytree(template(), folder, symlinks=True)
    return f"chdb:{folder}"


class SharedStore:
    """A store whose tables are emptied between tests, while the engine keeps running.

    A test then takes half of the CPU time, because the engine loads the tables at its start. Only this
    process can open the store, each session has the grants of a loader, and dictionaries keep what they
    have read.
    """

    def __init__(self, folder: Path) -> None:
        """Make the store in `folder`, which does not exist yet."""
        self.url = with_tables(folder)
        self._engine = EngineSession(str(folder), access.LOADER)
        self._used_by_every_store = self._filled()

    def empty(self) -> None:
        """Remove all rows that tests have loaded."""
        for name in self._filled() - self._used_by_every_store:
            self._engine.run(f"TRUNCATE TABLE firstflight.{name}")

    def close(self) -> None:
        """Stop the engine."""
        self._engine.close()

    def _filled(self) -> set[str]:
        query = "SELECT name FROM system.tables WHERE database = 'firstflight' AND total_rows > 0"
        return set(self._engine.run(query).decode().split())


def asked(url: str, query: str, output_format: str = "TSV") -> str:
    """Return the output of `firstflight sql QUERY --format FORMAT`."""
    return ask.formatted(query, output_format, url)[0].decode()


def rows(url: str, query: str) -> list[dict[str, Any]]:
    """Return the answer's rows, as `firstflight sql QUERY --format JSONEachRow` prints them."""
    return [json.loads(line) for line in asked(url, query, "JSONEachRow").splitlines()]
