"""Where a dictionary comes from and how it is kept: in this store, and in memory."""

from __future__ import annotations

from collections.abc import Callable

from store.statements.parsed import Parsed
from store.statements.tokens import Kind

_CREATES = ("CREATE DICTIONARY", "REPLACE DICTIONARY", "CREATE OR REPLACE DICTIONARY")
_WORDS = ("QUERY", "INVALIDATE_QUERY", "TABLE", "DB")
# SSD_CACHE writes a file wherever it is told to, REGEXP_TREE reads one.
_LAYOUTS = frozenset({
    "FLAT", "HASHED", "SPARSE_HASHED", "HASHED_ARRAY", "RANGE_HASHED", "CACHE", "DIRECT", "IP_TRIE",
    "COMPLEX_KEY_HASHED", "COMPLEX_KEY_SPARSE_HASHED", "COMPLEX_KEY_HASHED_ARRAY", "COMPLEX_KEY_RANGE_HASHED",
    "COMPLEX_KEY_CACHE", "COMPLEX_KEY_DIRECT", "POLYGON", "POLYGON_SIMPLE", "POLYGON_INDEX_EACH",
    "POLYGON_INDEX_CELL",
})  # fmt: skip


def refused(parsed: Parsed, refused_query: Callable[[str], str | None]) -> str | None:
    """Why a statement is refused that makes a dictionary; `refused_query` judges the queries in it."""
    if not any(map(parsed.stands, _CREATES)):
        return None
    sources, layouts = _parts(parsed, "SOURCE"), _parts(parsed, "LAYOUT")
    if len(sources) != 1 or len(layouts) > 1:
        return "a dictionary has one SOURCE and one LAYOUT here"
    for number in layouts:
        if parsed.word(number + 2).upper() not in _LAYOUTS:
            return f"the layout {parsed.at(number + 2).text} is not among those of dictionaries here"
    return _source(parsed, sources[0] + 2, refused_query)


def _parts(parsed: Parsed, name: str) -> list[int]:
    return [n for n in parsed.where(name) if not parsed.depth[n] and parsed.sign(n + 1) == "("]


def _source(parsed: Parsed, number: int, refused_query: Callable[[str], str | None]) -> str | None:
    kind = parsed.at(number).text.upper()
    end = parsed.closing(number - 1)
    inside = range(number + 2, end - 1)
    if kind not in ("NULL", "CLICKHOUSE"):
        return f"{kind} would reach beside the store that this server holds"
    whole = parsed.sign(number + 1) == "(" and parsed.closing(number + 1) == end - 1
    if not whole or (kind == "NULL" and len(inside)) or len(inside) % 2:
        return "the source of this dictionary cannot be read"
    for place in inside[::2]:
        word, value = parsed.word(place).upper(), parsed.at(place + 1)
        if word not in _WORDS or value.kind is not Kind.LITERAL:
            return "a dictionary's source is in the store that this server holds: QUERY, TABLE and DB name it"
        reason = refused_query(value.text) if word.endswith("QUERY") else None
        if reason:
            return reason
    return None
