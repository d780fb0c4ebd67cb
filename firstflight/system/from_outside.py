"""Parses untrusted text into values that all later code can handle."""

from __future__ import annotations

import json
from typing import Any

DIGITS = 18
"""Maximum number of digits in a length that a record file can hold."""


def content_length(text: str) -> int | None:
    """Return the number in a Content-Length (RFC 9110 8.6); `None` if it is not a valid length."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= DIGITS else None


def json_value(text: str | bytes) -> Any:
    """Parse JSON. Lone surrogates in strings become question marks, so that every file can store them.

    Raise ValueError or RecursionError for text that is not JSON.
    """
    return _storable(json.loads(text))


def _storable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_storable(key): _storable(element) for key, element in value.items()}
    return [_storable(element) for element in value] if isinstance(value, list) else value
