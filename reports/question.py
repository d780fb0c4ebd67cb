"""A question to the store, kept with its answer: what a page shows as SQL is the text that was run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from store import Store, sql

HERE = Path(__file__).parent / "sql"

_PLACE = re.compile(r"\{(\w+):(String|Date|UInt\d+|Int\d+)\}")


@dataclass(frozen=True)
class Answer:
    """Rows, and the SQL that gave them: whole, without parameters, as `firstflight sql` takes it."""

    sql: str
    rows: list[dict[str, Any]]


def ask(store: Store, name: str, **values: str | int) -> Answer:
    """Put the question in sql/NAME.sql with `values` in place of `{name:Type}`."""
    text = store.dialect.render((HERE / f"{name}.sql").read_text(encoding="utf-8"))
    return put(store, text, values)


def put(store: Store, text: str, values: Mapping[str, str | int]) -> Answer:
    """Put a rendered question with `values` in place of `{name:Type}`."""
    sql = bound(text.strip(), values)
    return Answer(sql, store.rows(sql))


def bound(text: str, values: Mapping[str, str | int]) -> str:
    """`text` with literals in place of `{name:Type}`; KeyError for one without value."""

    def value_at(place: re.Match[str]) -> str:
        value, kind = values[place[1]], place[2]
        if "Int" in kind:
            return str(int(value))
        return sql.literal(str(value))

    return _PLACE.sub(value_at, text)
