"""Runs queries for reports and keeps the SQL with the answer, so a page shows the SQL that was run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from store import Store, sql

HERE = Path(__file__).parent / "sql"

_PARAMETER = re.compile(r"\{(\w+):(String|Date|Bool|UInt\d+|Int\d+)\}")


@dataclass(frozen=True)
class QueryAnswer:
    """Rows, and the SQL that returned them, with all values inserted, for `firstflight sql`."""

    sql: str
    rows: list[dict[str, Any]]


def ask(store: Store, name: str, **values: str | int) -> QueryAnswer:
    """Run the query in sql/NAME.sql with `values` for its `{name:Type}`."""
    text = store.dialect.render((HERE / f"{name}.sql").read_text(encoding="utf-8"))
    return run_rendered(store, text, values)


def run_rendered(store: Store, text: str, values: Mapping[str, str | int]) -> QueryAnswer:
    """Run a rendered query with `values` for its `{name:Type}`."""
    sql = with_literals(text.strip(), values)
    return QueryAnswer(sql, store.rows(sql))


def with_literals(text: str, values: Mapping[str, str | int]) -> str:
    """Return `text` with literals for each `{name:Type}`; KeyError for one without value."""

    def value_at(match: re.Match[str]) -> str:
        value, kind = values[match[1]], match[2]
        if "Int" in kind:
            return str(int(value))
        if kind == "Bool":
            return "true" if value == "true" else "false"
        return sql.literal(str(value))

    return _PARAMETER.sub(value_at, text)
