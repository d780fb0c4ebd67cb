"""Quotes text that becomes part of a statement. No other module quotes SQL.

Only text that cannot be a parameter of the protocol needs this.
"""

from __future__ import annotations

_LITERAL = str.maketrans({"\\": "\\\\", "'": "\\'", "\n": "\\n", "\t": "\\t", "\r": "\\r", "\0": "\\0"})
_FIELD = str.maketrans({"\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r", "\0": "\\0"})


def literal(text: str) -> str:
    """Return `text` as a string literal."""
    return f"'{text.translate(_LITERAL)}'"


def identifier(name: str) -> str:
    """Return `name` as a quoted identifier."""
    return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"


def field(text: str) -> str:
    """Return `text` as a field of TSV, the format in which the engine reads parameters."""
    return text.translate(_FIELD)
