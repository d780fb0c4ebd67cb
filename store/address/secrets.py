"""Passwords: read from a file or the environment, never printed."""

from __future__ import annotations

from pathlib import Path

from firstflight.errors import UsageError


def first_line(path: Path) -> str:
    """Return the secret in a file's first line; UsageError if the line is empty or cannot be read."""
    try:
        with path.open(encoding="utf-8") as file:
            line = file.readline().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise UsageError(f"cannot read {path}: {reason}") from error
    if not line:
        raise UsageError(f"the first line of {path} is empty: write the secret there")
    return line
