"""Converts MRT dumps of routing tables (RFC 6396) to prefixes with origin AS, as a pyasn text database.

`firstflight-rib` (crawler/native) reads the dumps. Its `origin.rs` and `table.rs` contain the rules for
origins.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from firstflight.errors import FirstflightError, InputError, UsageError
from firstflight.system import binaries, children
from firstflight.system.reporting import reading

PROGRAM = "firstflight-rib"


def convert(
    tables: Sequence[Path], database: Path, source: str, shown_in: Path | None = None
) -> dict[str, Any]:
    """Write the origins in the MRT files `tables` (plain, bz2 or gz) to `database`; `source` is its head.

    Return dumped_at (time of the first record, ISO 8601), prefixes_v4, prefixes_v6, and counts. Each RIB
    record is a prefix or in one of the counts. `shown_in`: a folder for the progress.

    Raise InputError if a file cannot be opened, is truncated or damaged, or is not a table dump. The message
    has the file and the offset. The database is then not written, because an incomplete table gives wrong
    origins.
    """
    argv = [
        str(binaries.find(PROGRAM)),
        "--out",
        str(database),
        f"--source={source}",
        "--",
        *map(str, tables),
    ]
    process = children.start(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if shown_in is None:
        stdout, stderr = children.wait_for_exit(process)
    else:
        stdout, stderr = reading.wait_for_exit(process, tables, shown_in, "routing table")
    if process.returncode != 0:
        message = stderr.decode(errors="replace").strip().removeprefix(f"{PROGRAM}: ")
        for kind in (UsageError, InputError):
            if process.returncode == kind.exit_status:
                raise kind(message)
        raise FirstflightError(
            f"{PROGRAM} failed with status {process.returncode}: {message or 'it gave no reason'}"
        )
    summary: dict[str, Any] = json.loads(stdout)
    summary["dumped_at"] = datetime.fromtimestamp(summary["dumped_at"], UTC).isoformat()
    return summary
