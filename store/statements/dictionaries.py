"""Checks a dictionary's source, which must be this store, and its layout, which must be in memory."""

from __future__ import annotations

from collections.abc import Callable

from store.statements.parsed import Parsed
from store.statements.tokens import TokenKind

_CREATES = ("CREATE DICTIONARY", "REPLACE DICTIONARY", "CREATE OR REPLACE DICTIONARY")
_WORDS = ("QUERY", "INVALIDATE_QUERY", "TABLE", "DB")
# SSD_CACHE writes a file to any path, REGEXP_TREE reads one.
_LAYOUTS = frozenset({
    "FLAT", "HASHED", "SPARSE_HASHED", "HASHED_ARRAY", "RANGE_HASHED", "CACHE", "DIRECT", "IP_TRIE",
    "COMPLEX_KEY_HASHED", "COMPLEX_KEY_SPARSE_HASHED", "COMPLEX_KEY_HASHED_ARRAY", "COMPLEX_KEY_RANGE_HASHED",
    "COMPLEX_KEY_CACHE", "COMPLEX_KEY_DIRECT", "POLYGON", "POLYGON_SIMPLE", "POLYGON_INDEX_EACH",
    "POLYGON_INDEX_CELL",
})  # fmt: skip


def refused(parsed: Parsed, refused_query: Callable[[str], str | None]) -> str | None:
    """Return why a CREATE DICTIONARY is refused, or `None`; `refused_query` checks the queries in it."""
    if not any(map(parsed.stands, _CREATES)):
        return None
    sources, layouts = _parts(parsed, "SOURCE"), _parts(parsed, "LAYOUT")
    if len(sources) != 1 or len(layouts) > 1:
        return "a dictionary must have one SOURCE and at most one LAYOUT"
    for number in layouts:
        if parsed.word(number + 2).upper() not in _LAYOUTS:
            return f"the layout {parsed.at(number + 2).text} is not allowed for dictionaries"
    return _source(parsed, sources[0] + 2, refused_query)


def _parts(parsed: Parsed, name: str) -> list[int]:
    return [n for n in parsed.where(name) if not parsed.depth[n] and parsed.sign(n + 1) == "("]


def _source(parsed: Parsed, number: int, refused_query: Callable[[str], str | None]) -> str | None:
    kind = parsed.at(number).text.upper()
    end = parsed.closing(number - 1)
    inside = range(number + 2, end - 1)
    if kind not in ("NULL", "CLICKHOUSE"):
        return f"{kind} would reach outside the store of this server"
    whole = parsed.sign(number + 1) == "(" and parsed.closing(number + 1) == end - 1
    if not whole or (kind == "NULL" and len(inside)) or len(inside) % 2:
        return "the source of this dictionary cannot be read"
    for at in inside[::2]:
        word, value = parsed.word(at).upper(), parsed.at(at + 1)
        if word not in _WORDS or value.kind is not TokenKind.LITERAL:
            return "a dictionary's source must be in this server's store: name it by QUERY, TABLE and DB only"
        reason = refused_query(value.text) if word.endswith("QUERY") else None
        if reason:
            return reason
    return None
