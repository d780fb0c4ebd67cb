"""What somebody else may have put into a store: looked at before anything of it is evaluated.

A client of `store serve` can leave expressions behind (a column's default, a view, a dictionary's source, a
function), and who opens the store evaluates them. A store with what the guard would not let a client make
today is not opened.
"""

from __future__ import annotations

import json

from firstflight.errors import UsageError
from store.engine import Engine
from store.statements import guard

_STORED = """
SELECT concat(database, '.', name) AS name, create_table_query AS text FROM system.tables
WHERE database NOT IN ('system', 'information_schema', 'INFORMATION_SCHEMA') AND NOT is_temporary
    AND create_table_query != ''
UNION ALL
SELECT concat('the function ', name), create_query FROM system.functions WHERE origin = 'SQLUserDefined'
"""


def check(engine: Engine, place: str) -> None:
    """Look at all definitions in the store that `engine` has open, `place` for people.

    UsageError names the first that is refused; EngineError if they cannot be read.
    """
    for line in engine.run(_STORED, "JSONEachRow").splitlines():
        stored = json.loads(line)
        try:
            guard.check_stored(engine, stored["text"])
        except UsageError as error:
            raise UsageError(
                f"the store in {place} is not opened, since {stored['name']} in it is not safe to use: "
                f"{error}; drop it by a client of `firstflight store serve`"
            ) from error
