"""Parses values in text from outside into forms that all later code can handle."""

from __future__ import annotations

import json
from typing import Any

DIGITS = 18
"""Maximum number of digits in a length that a record file can hold."""


def content_length(text: str) -> int | None:
    """Return the number in a Content-Length (RFC 9110 8.6); None if the text is not a valid length."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= DIGITS else None


def json_value(text: str | bytes) -> Any:
    """Return the value of JSON, whose texts every file can hold: lone surrogates become question marks.

    ValueError or RecursionError if it is none.
    """
    return _storable(json.loads(text))


def _storable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_storable(key): _storable(one) for key, one in value.items()}
    return [_storable(one) for one in value] if isinstance(value, list) else value
