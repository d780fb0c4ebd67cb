"""Where the native programs are: reached by path, argument list, exit status and record files."""

from __future__ import annotations

import os
from pathlib import Path

from firstflight.errors import FirstflightError, InputError, UsageError

BIN_VARIABLE = "FIRSTFLIGHT_BIN"
"""Environment variable naming the folder of the native programs; it wins over the repository's build."""


def repository() -> Path:
    """Folder of the checkout that this package was installed from (editable)."""
    return Path(__file__).resolve().parents[2]


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


def unreadable(status: int, stderr: bytes) -> list[str]:
    """From the end of `firstflight-dissect`: a sentence about each capture that it could not read to its end.

    Its records up to there are written. FirstflightError if it failed for another reason.
    """
    if status == 0:
        return []
    lines = [
        line.removeprefix("firstflight-dissect: ")
        for line in stderr.decode(errors="replace").strip().splitlines()
    ]
    # The other lines tell what captures held that is in no record.
    broken = [line for line in lines if "at byte" in line]
    if status == InputError.exit_status:
        return broken or lines[-1:] or ["it said nothing"]
    words = (broken or lines or ["it said nothing"])[-1]
    raise FirstflightError(f"the dissector failed with status {status}: {words}")
