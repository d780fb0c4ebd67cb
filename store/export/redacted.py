"""Removes secrets and paths of machines from a run's manifest and settings, for publication."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from store.export.opted_out import OptedOut

# Commands may hold credentials, a store's address a user and a password.
_SECRET = frozenset(
    {"before_repetition", "cid_key", "command", "overrides", "program", "secret_file", "store"}
)
# Keys that identify the operator and the machine, and messages, which quote names.
_IDENTIFYING = frozenset(
    {"contact", "host", "interface", "message", "resolver", "resolvers", "sources", "warnings", "worker"}
)
# The path of a URL, not of a file.
_OF_REQUESTS = "path"
_LOGIN = re.compile(r"(://)[^/@\s\"]*@")


def redacted(text: str, opted_out: OptedOut, *, anonymise: bool) -> dict[str, Any]:
    """Return a manifest or settings (JSON) without secrets, and without texts that name opted-out hosts.

    `anonymise`: also without values that identify the machines that measured. ValueError if `text` is not a
    JSON object.
    """
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError("it is no JSON object")
    left_out = _SECRET | _IDENTIFYING if anonymise else _SECRET
    return {
        key: _redacted_value(entry, left_out, opted_out)
        for key, entry in value.items()
        if key not in left_out
    }


def _redacted_value(value: Any, left_out: frozenset[str], opted_out: OptedOut) -> Any:
    if isinstance(value, Mapping):
        return {
            key: entry if key == _OF_REQUESTS else _redacted_value(entry, left_out, opted_out)
            for key, entry in value.items()
            if key not in left_out and not opted_out.is_mentioned(str(key))
        }
    if isinstance(value, list):
        return [_redacted_value(entry, left_out, opted_out) for entry in value]
    if not isinstance(value, str):
        return value
    if opted_out and opted_out.is_mentioned(value):
        return ""
    if value.startswith("/") and "\n" not in value:
        return PurePosixPath(value).name or value
    return _LOGIN.sub(r"\1", value)
