"""The store: keeps rows and answers queries.

    with store.open_store() as db:            # FIRSTFLIGHT_STORE, read-only
        db.rows("SELECT * FROM table1")

A store is open only inside the `with`, because only one process at a time can open an embedded store.
"""

from __future__ import annotations

from store.base import Store
from store.location import DATABASE, EmbeddedLocation, find, open_store

__all__ = ["DATABASE", "EmbeddedLocation", "Store", "find", "open_store"]
