"""Where the native programs are: reached by path, argument list, exit status and record files."""

from __future__ import annotations

import os
from pathlib import Path

from firstflight.errors import UsageError

BIN_VARIABLE = "FIRSTFLIGHT_BIN"
"""Environment variable naming the folder of the native programs; it wins over the repository's build."""


def repository() -> Path:
    """Folder of the checkout that this package was installed from (editable)."""
    return Path(__file__).resolve().parent.parent


def find(name: str) -> Path:
    """Path of the native program `name`, for example `firstflight-prober`.

    Looks in the folder `$FIRSTFLIGHT_BIN` if that is set, and only there; else in `target/release`
    beside the package. Raises UsageError when no executable file of that name is there.
    """
    chosen = os.environ.get(BIN_VARIABLE)
    folder = Path(chosen) if chosen else repository() / "target" / "release"
    program = folder / name
    if program.is_file() and os.access(program, os.X_OK):
        return program
    remedy = f"put it there or unset {BIN_VARIABLE}" if chosen else "run `make build`"
    raise UsageError(f"{name} is not in {folder}: {remedy}")
