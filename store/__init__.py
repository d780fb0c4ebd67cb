"""The store: keeps rows and answers queries.

    with store.open_store() as db:            # FIRSTFLIGHT_STORE, read-only
        db.rows("SELECT * FROM table1")

A store is open only inside the `with`, because only one process at a time can open an embedded store.

    location                finds the store and opens it
    address/                a server's URL, and the file with the address of a served store
    backends/               the two kinds of store: embedded in this process, remote on a server
    engine/                 the engine in this process, and the formats of answers
    tables/                 tables, views and comments: updated, kept, checked
    sql                     the only module that quotes SQL
    statements/             the statements that a client may run
    confine/                the limits of a process that runs statements
    load/, export/          record files into the store, runs into a folder to publish
    clickhouse/, protocol/  the server of the native protocol
"""

from __future__ import annotations

from store.base import Store
from store.location import DATABASE, EmbeddedLocation, find, open_store

__all__ = ["DATABASE", "EmbeddedLocation", "Store", "find", "open_store"]
