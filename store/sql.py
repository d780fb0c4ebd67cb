"""Quoting of SQL: the one place where text becomes part of a statement.

Wherever the protocol has parameters they are used instead; these are for the rest.
"""

from __future__ import annotations

_LITERAL = str.maketrans({"\\": "\\\\", "'": "\\'", "\n": "\\n", "\t": "\\t", "\r": "\\r", "\0": "\\0"})
_FIELD = str.maketrans({"\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r", "\0": "\\0"})


def literal(text: str) -> str:
    """`text` as a string literal."""
    return f"'{text.translate(_LITERAL)}'"


def identifier(name: str) -> str:
    """`name` as an identifier, whatever it holds."""
    return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"


def field(text: str) -> str:
    """`text` as a field of TSV, which is how the engine reads the value of a parameter."""
    return text.translate(_FIELD)
