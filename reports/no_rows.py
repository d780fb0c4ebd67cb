"""Explains why the answer to a named query has no rows, so that it is not taken for a result."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache

from reports.chosen_run import NEWEST, rows_of
from reports.query import NamedQuery
from schemas import records, sql
from store import Store
from store.base import FormattedAnswer
from store.sql import literal

_TABLE = re.compile(r"\bfirstflight\.(\w+)")
# Tables that a query reads to choose a run or to complete a roll-up, not for its rows.
_NOT_COUNTED = {
    "newest_runs",
    "newest_run",
    "unit_not_rolled_up",
    "load_file",
    "run",
    "target",
    "certificate",
}


def is_empty(answer: FormattedAnswer) -> bool:
    """Return whether an answer has no rows; False also for binary formats, in which that is not visible."""
    content, output_format = answer
    if output_format in ("JSON", "JSONCompact", "JSONStrings", "JSONCompactStrings"):
        return not json.loads(content)["data"]
    if output_format == "Markdown":
        return content.count(b"\n") <= 2
    if output_format.startswith("RowBinary"):
        return not content
    head_lines = 2 if output_format.endswith("AndTypes") else 1 if output_format.endswith("WithNames") else -1
    return content.count(b"\n") <= head_lines or not content


def reason(store: Store, named_query: NamedQuery, given: Mapping[str, str]) -> str:
    """Return a sentence that explains why the store has no rows for `named_query` with these parameters."""
    run = named_query.value("run", given)
    kinds = _kinds(named_query.text)
    nouns = " or ".join(map(rows_of, kinds)) if kinds else "rows for it"
    if not any(_has_rows(store, kind) for kind in kinds):
        return f"no rows: no run in the store in {store.location} has {nouns}"
    if run and run != NEWEST and not any(_has_rows(store, kind, run) for kind in kinds):
        return f"no rows: run {run} has no {nouns} in the store; other runs have some"
    for parameter in named_query.parameters:
        if parameter.name == "domain" and not given.get("domain"):
            return f"no rows: the query {named_query.name} is about one name; add --param domain=NAME"
    narrowed = [f"{name}={value}" for name, value in given.items() if value]
    if narrowed:
        return f"no rows: the store has {nouns}, but none that the query counts with {', '.join(narrowed)}"
    return f"no rows: the store has {nouns}, but none that the query counts ({named_query.name} --about)"


@cache
def _kinds(text: str) -> tuple[str, ...]:
    """Return the record kinds that the query reads, also through views."""
    views = {view.name: view.text for view in sql.views()}
    kinds: dict[str, None] = {}

    def follow(part: str) -> None:
        for name in _TABLE.findall(part.replace("${database}", "firstflight")):
            if name in _NOT_COUNTED:
                continue
            if name in views:
                follow(views[name])
            elif name in ("probe_day", "probe_unit"):
                kinds["quic_probe"] = None
            elif name in records.stored_names():
                kinds[name] = None

    follow(text)
    return tuple(kinds)


def _has_rows(store: Store, kind: str, run: str = "") -> bool:
    condition = f" WHERE run = {literal(run)}" if run else ""
    return bool(store.rows(f"SELECT 1 FROM {store.dialect.database}.{kind}{condition} LIMIT 1"))
