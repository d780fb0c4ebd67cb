"""The store: where rows are kept and asked for.

    with store.open_store() as db:            # FIRSTFLIGHT_STORE, read-only
        db.rows("SELECT * FROM table1")

A store is open only inside the `with`, because an embedded one admits a single process at a time.
"""

from __future__ import annotations

from store.base import Store
from store.location import DATABASE, EmbeddedPlace, find, open_store

__all__ = ["DATABASE", "EmbeddedPlace", "Store", "find", "open_store"]
