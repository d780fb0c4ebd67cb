"""What a store's engine reports, made one sentence for people."""

from __future__ import annotations

import re

from firstflight.errors import FirstflightError, UsageError


class StoreError(UsageError):
    """The engine refused a statement. `code` is ClickHouse's error number, 0 if it gave none."""

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


class StoreHeld(FirstflightError):
    """Another process has the embedded store open and did not let go in time; nothing was done."""

    exit_status = 2


class StoreUnreachable(FirstflightError):
    """A server does not answer, or the connection to it broke and could not be made again in time.

    `exit_status` is 2 if it never answered, 1 if something was done before.
    """

    exit_status = 2


class DiskFull(FirstflightError):
    """No space left where the store is. What was being written is undone by the next load."""


SYNTAX_ERROR = 62
UNKNOWN_TABLE = 60
UNKNOWN_DATABASE = 81
READONLY = 164
AUTHENTICATION_FAILED = 516
NOT_ENOUGH_SPACE = 243
MEMORY_LIMIT, TOO_MANY_ROWS, OUT_OF_TIME = 241, 396, 159
# What to do about limits, which the engine does not say.
_LIMITS = {
    MEMORY_LIMIT: "ask for fewer rows or columns at once, or group by less",
    TOO_MANY_ROWS: "ask for fewer rows, with WHERE or LIMIT",
    OUT_OF_TIME: "ask for less at once",
}
# A server says these when the same statement may succeed a moment later: too many queries, a time-out, a lost
# connection, going down, a replica read-only for now, too many parts, an insert of unknown fate, Keeper.
TRANSIENT = frozenset({202, 209, 210, 236, 242, 252, 319, 999})

_CODE = re.compile(r"Code: (\d+)\. ")
_NOISE = [
    # ClickHouse repeats code, kind and version around the message, once per layer that it passed.
    re.compile(r"Code: \d+\. "),
    re.compile(r"DB::(Errnoe?)?Exception: "),
    re.compile(r"std::exception\. "),
    re.compile(r" ?\(version [\d.]+[^)]*\)\.?"),
    re.compile(r" ?\([A-Z][A-Z0-9_]+\)\.?$"),
    re.compile(r"[.:]? In scope .*$", re.DOTALL),
    re.compile(r"\.? Expected one of: .*$", re.DOTALL),
    re.compile(r" Stack trace:.*$", re.DOTALL),
    re.compile(r": While executing \w+\.?"),
]
# Said by the engine as "default: ...", where default is the name of its user.
_USER = re.compile(r"^default: ")


def from_engine(text: str, place: str) -> FirstflightError:
    """The error that `text`, the engine's own message, stands for."""
    found = _CODE.search(text)
    code = int(found[1]) if found else 0
    if code == NOT_ENOUGH_SPACE or "No space left on device" in text or "errno: 28" in text:
        return DiskFull(f"no space left on the disk of the store ({place}): free some and do it again")
    if code == READONLY:
        return StoreError("the store is open for reading only: use SELECT, SHOW, DESCRIBE or EXPLAIN", code)
    message = " ".join(text.split())
    before = None
    while before != message:  # a layer's suffix hides the one below it
        before = message
        for noise in _NOISE:
            message = noise.sub("", message)
        message = message.strip()
    advice = f": {_LIMITS[code]}" if code in _LIMITS else ""
    return StoreError(f"the store refused: {_USER.sub('', message)}{advice}", code)
