"""Removes secrets and paths of machines from a run's manifest and settings, for publication."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from store.export.anonymous import Anonymiser
from store.export.opted_out import OptedOut

# Commands may hold credentials, a store's address a user and a password.
_SECRET = frozenset(
    {"before_repetition", "cid_key", "command", "overrides", "program", "secret_file", "store"}
)
# Keys that identify the operator and the machine, and messages, which quote names.
_IDENTIFYING = frozenset(
    {
        *("contact", "host", "interface", "message", "ownership", "resolver", "resolvers", "sources"),
        *("warnings", "worker"),
    }
)
# Keys with lists of host names that are probed.
_NAMES = frozenset({"control", "owned"})
# The path of a URL, not of a file.
_OF_REQUESTS = "path"
_LOGIN = re.compile(r"(://)[^/@\s\"]*@")


def redacted(text: str, opted_out: OptedOut, anonymiser: Anonymiser | None) -> dict[str, Any]:
    """Return a manifest or settings (JSON) without secrets, and without texts that name opted-out hosts.

    `anonymiser`: also with hashed names, and without values that identify the machines that measured.
    ValueError if `text` is not a JSON object.
    """
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError("it is no JSON object")
    left_out = _SECRET | _IDENTIFYING if anonymiser else _SECRET
    return {
        key: _redacted_value(entry, left_out, opted_out, anonymiser)
        for key, entry in value.items()
        if key not in left_out
    }


def _redacted_value(
    value: Any, left_out: frozenset[str], opted_out: OptedOut, anonymiser: Anonymiser | None
) -> Any:
    if isinstance(value, Mapping):
        redacted_values = {
            key: entry if key == _OF_REQUESTS else _redacted_value(entry, left_out, opted_out, anonymiser)
            for key, entry in value.items()
            if key not in left_out and not opted_out.is_mentioned(str(key))
        }
        for key in _NAMES & redacted_values.keys():
            if anonymiser and isinstance(redacted_values[key], list):
                redacted_values[key] = [anonymiser.name(name) for name in redacted_values[key]]
        return redacted_values
    if isinstance(value, list):
        return [_redacted_value(entry, left_out, opted_out, anonymiser) for entry in value]
    if not isinstance(value, str):
        return value
    if opted_out and opted_out.is_mentioned(value):
        return ""
    if value.startswith("/") and "\n" not in value:
        return PurePosixPath(value).name or value
    return _LOGIN.sub(r"\1", value)
