"""Checks all definitions in a store before the engine evaluates them.

A client of `store serve` can store expressions (a column's default, a view, a dictionary's source, a
function) that the next process to open the store evaluates. A store with a definition that the guard would
refuse today is not opened.
"""

from __future__ import annotations

import json

from firstflight.errors import UsageError
from store.engine.session import EngineSession
from store.statements import guard

_STORED = """
SELECT concat(database, '.', name) AS name, create_table_query AS text
FROM system.tables
WHERE database NOT IN ('system', 'information_schema', 'INFORMATION_SCHEMA') AND NOT is_temporary
    AND create_table_query != ''
UNION ALL
SELECT concat('the function ', name), create_query FROM system.functions WHERE origin = 'SQLUserDefined'
"""
# The engine parses and prints all definitions in one query; a query for each takes five times as long.
_PARSED = f"SELECT name, text, formatQueryOrNull(text) AS parsed FROM ({_STORED})"

# Definitions that this process has found safe: a store is opened repeatedly, with the same definitions.
_safe: set[str] = set()


def check(engine: EngineSession, location: str) -> None:
    """Check all definitions in the store that `engine` has open; `location` names it in messages.

    UsageError names the first refused definition; EngineError if they cannot be read.
    """
    if all(stored["text"] in _safe for stored in _rows(engine, _STORED)):
        return
    for stored in _rows(engine, _PARSED):
        try:
            guard.check_stored(engine, stored["parsed"])
        except UsageError as error:
            raise UsageError(
                f"the store in {location} is not opened, because {stored['name']} in it is not safe to use: "
                f"{error}; drop it by a client of `firstflight store serve`"
            ) from error
        _safe.add(stored["text"])


def _rows(engine: EngineSession, query: str) -> list[dict[str, str]]:
    return [json.loads(line) for line in engine.run(query, "JSONEachRow").splitlines()]
