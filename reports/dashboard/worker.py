"""Answers one question of the dashboard: a process of its own, confined as `firstflight query` is.

A store's expressions are evaluated by the process that opens it; the process that has clients never does.
Standard input: one JSON object (`asking.Question`). Standard output: a line of JSON, `{}` or
`{"fault": ..., "message": ...}`, and after `{}` the answer.
"""

from __future__ import annotations

import json
import sys

from firstflight.errors import FirstflightError
from reports import query
from store import confined_command, find
from store.base import Limits
from store.errors import LIMIT_CODES, OUT_OF_TIME, StoreError, StoreHeld, StoreUnreachable

WAIT_S = 5.0
"""How long a question waits for another program to leave an embedded store."""


def fault_of(error: FirstflightError) -> str:
    """Return the kind of a failure to answer: a name of `asking.STATUS`."""
    if isinstance(error, StoreError) and error.code == OUT_OF_TIME:
        return "time"
    if isinstance(error, StoreError) and error.code in LIMIT_CODES:
        return "size"
    return "busy" if isinstance(error, StoreHeld | StoreUnreachable) else "store"


def main() -> None:
    """Answer the question on standard input."""
    asked = json.load(sys.stdin)
    limits = Limits(**asked["limits"])
    head: dict[str, str] = {}
    content = b""
    try:
        find()
        confined_command.asking()
        content = query.formatted(
            asked["name"], asked["given"], asked["output_format"], wait_s=WAIT_S, limits=limits
        ).content
    except FirstflightError as error:
        head = {"fault": fault_of(error), "message": str(error)}
    sys.stdout.buffer.write(json.dumps(head).encode() + b"\n" + content)


if __name__ == "__main__":
    main()
