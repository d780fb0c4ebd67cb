"""Finds the Rust programs, and interprets the dissector's exit status."""

from __future__ import annotations

import os
from pathlib import Path

from firstflight.errors import FirstflightError, InputError, OutputError, UsageError

BIN_VARIABLE = "FIRSTFLIGHT_BIN"
"""Environment variable with the folder of the Rust programs; overrides package and checkout."""


def repository() -> Path:
    """Return the folder of the checkout that this package was installed from (editable)."""
    return Path(__file__).resolve().parents[2]


def folder() -> tuple[Path, str]:
    """Return the one folder that holds the native programs, and what to do if one is missing there.

    The folder `$FIRSTFLIGHT_BIN` if that is set; else `firstflight/programs`, which only an installed wheel
    has (docs/design/0031); else `target/release` in the checkout.
    """
    chosen = os.environ.get(BIN_VARIABLE)
    if chosen:
        return Path(chosen), f"put it there or unset {BIN_VARIABLE}"
    inside = repository() / "firstflight" / "programs"
    if inside.is_dir():
        return inside, "a wheel has only the measurement programs; the lab and benches need a checkout"
    return repository() / "target" / "release", "run `make setup`"


def find(name: str) -> Path:
    """Return the path of the native program `name`, for example `firstflight-prober`.

    Raises UsageError if `folder` holds no executable file of that name.
    """
    where, remedy = folder()
    program = where / name
    if program.is_file() and os.access(program, os.X_OK):
        return program
    raise UsageError(f"{name} is not in {where}: {remedy}")


def unreadable(status: int, stderr: bytes, written: Path | None = None) -> list[str]:
    """Return the dissector's messages about captures and key logs that it could not read.

    The records before the position of a broken capture are written. OutputError with the dissector's reason
    if they are not: the file `written` is missing. FirstflightError if the dissector failed otherwise.
    """
    if status == 0:
        return []
    lines = [
        line.removeprefix("firstflight-dissect: ")
        for line in stderr.decode(errors="replace").strip().splitlines()
    ]
    # The other lines count the packets of the captures that are in no record.
    keyless = [line for line in lines if "the key log beside it cannot be read" in line]
    broken = [line for line in lines if "at byte" in line]
    if status == InputError.exit_status:
        if written is not None and not written.is_file():
            # Of several messages, the last is why it ended.
            reason = (lines or ["it gave no reason"])[-1]
            raise OutputError(f"the dissector wrote no records: {reason}")
        return keyless + broken or lines[-1:] or ["it gave no reason"]
    reason = (broken or lines or ["it gave no reason"])[-1]
    raise FirstflightError(f"the dissector failed with status {status}: {reason}")
