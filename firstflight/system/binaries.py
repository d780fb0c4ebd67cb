"""Finds the Rust programs, and interprets the dissector's exit status."""

from __future__ import annotations

import os
from pathlib import Path

from firstflight.errors import FirstflightError, InputError, OutputError, UsageError

BIN_VARIABLE = "FIRSTFLIGHT_BIN"
"""Environment variable with the folder of the Rust programs. Overrides package and checkout."""


def repository() -> Path:
    """Return the folder of the checkout from which this package was installed (editable)."""
    return Path(__file__).resolve().parents[2]


def folder() -> tuple[Path, str]:
    """Return the folder of the native programs, and the remedy for a missing program.

    The folder is `$FIRSTFLIGHT_BIN` if set, else `firstflight/programs`, which exists only in an installed
    wheel (docs/design/0031), else `target/release` in the checkout.
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

    Raise UsageError if `folder` has no executable file with this name.
    """
    bin_folder, remedy = folder()
    program = bin_folder / name
    if program.is_file() and os.access(program, os.X_OK):
        return program
    raise UsageError(f"{name} is not in {bin_folder}: {remedy}")


def unreadable(status: int, stderr: bytes, written: Path | None = None) -> list[str]:
    """Return the dissector's messages about captures and key logs that it could not read.

    The dissector writes the records before the damage in a capture. Raise OutputError with the dissector's
    reason if it wrote no records, so that the file `written` is missing. Raise FirstflightError after another
    failure.
    """
    if status == 0:
        return []
    lines = [
        line.removeprefix("firstflight-dissect: ")
        for line in stderr.decode(errors="replace").strip().splitlines()
    ]
    # The other lines count packets that are in no record.
    keyless = [line for line in lines if "the key log beside it cannot be read" in line]
    broken = [line for line in lines if "at byte" in line]
    if status == InputError.exit_status:
        if written is not None and not written.is_file():
            # The last message is the reason for the exit.
            reason = (lines or ["it gave no reason"])[-1]
            raise OutputError(f"the dissector wrote no records: {reason}")
        return keyless + broken or lines[-1:] or ["it gave no reason"]
    reason = (broken or lines or ["it gave no reason"])[-1]
    raise FirstflightError(f"the dissector failed with status {status}: {reason}")
