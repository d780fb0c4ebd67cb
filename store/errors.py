"""Errors from a store: turns the engine's message into one sentence."""

from __future__ import annotations

import re

from firstflight.errors import FirstflightError, OutputError, UsageError
from firstflight.system import open_files


class StoreError(UsageError):
    """The engine refused a statement. `code` is ClickHouse's error number, 0 if it is unknown."""

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


class StoreHeld(FirstflightError):
    """Another process held the embedded store, or a lease, for too long; nothing was done."""

    exit_status = 2


class StoreUnreachable(FirstflightError):
    """A server does not answer, or the connection to it broke and could not be restored in time.

    `exit_status` is 2 if the server never answered, 1 if something was done before.
    """

    exit_status = 2


class DiskFull(OutputError):
    """The store's disk is full. The next load removes incomplete rows."""


UNKNOWN_TABLE = 60
UNKNOWN_DATABASE = 81
READONLY = 164
AUTHENTICATION_FAILED = 516
ACCESS_DENIED = 497
NOT_ENOUGH_SPACE = 243
MEMORY_LIMIT, TOO_MANY_ROWS, OUT_OF_TIME = 241, 396, 159
LIMIT_CODES = frozenset({MEMORY_LIMIT, TOO_MANY_ROWS, OUT_OF_TIME})
# Advice for exceeded limits, which the engine's message lacks.
_LIMITS = {
    MEMORY_LIMIT: "select fewer rows or columns, or group by fewer columns",
    TOO_MANY_ROWS: "select fewer rows, with WHERE or LIMIT",
    OUT_OF_TIME: "select less data",
}
# Codes of errors after which the same statement may succeed: too many queries, timeout, lost connection,
# shutdown, replica temporarily read-only, too many parts, insert with unknown result, Keeper.
TRANSIENT = frozenset({202, 209, 210, 236, 242, 252, 319, 999})

_CODE = re.compile(r"Code: (\d+)\. ")
_NOISE = [
    # ClickHouse repeats code, kind and version around the message, once per layer.
    re.compile(r"Code: \d+\. "),
    re.compile(r"DB::(Errnoe?)?Exception: "),
    re.compile(r"std::exception\. "),
    re.compile(r" ?\(version [\d.]+[^)]*\)\.?"),
    re.compile(r" ?\([A-Z][A-Z0-9_]+\)\.?$"),
    re.compile(r"[.:]? In scope .*$", re.DOTALL),
    re.compile(r"\.? Expected one of: .*$", re.DOTALL),
    re.compile(r",? Stack trace[: ].*$", re.DOTALL),
    re.compile(r": While executing \w+\.?"),
]
# The engine prefixes some messages with the name of the user, "default: ".
_USER = re.compile(r"^default: ")


def from_engine(text: str, location: str) -> FirstflightError:
    """Return the error for `text`, the engine's message."""
    match = _CODE.search(text)
    code = int(match[1]) if match else 0
    if code == NOT_ENOUGH_SPACE or "No space left on device" in text or "errno: 28" in text:
        return DiskFull(f"no space left on the disk of the store ({location}): free space and try again")
    if many := open_files.sentence(text):
        return FirstflightError(many)
    if code == READONLY:
        return StoreError("the store is open for reading only: use SELECT, SHOW, DESCRIBE or EXPLAIN", code)
    advice = f": {_LIMITS[code]}" if code in _LIMITS else ""
    return StoreError(f"the store refused: {_USER.sub('', plain(text))}{advice}", code)


def plain(text: str) -> str:
    """Return the engine's message on one line, without codes, versions and stack trace."""
    message = " ".join(text.split())
    before = None
    while before != message:  # removing a layer's suffix exposes the next one
        before = message
        for noise in _NOISE:
            message = noise.sub("", message)
        message = message.strip()
    return message
