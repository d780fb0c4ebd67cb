"""A block's files: their names, its rows, and a hash over the reproducible files."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from firstflight.errors import InputError

ROWS = "testbed_trial.jsonl"
CAPTURE = "path.pcap"
"""The capture at the client; a block without it has no hash."""
SENT = "sender.pcap"
"""The capture behind the server."""
KEYS = "path.keys"
SENDER_LOG = "sender.jsonl"
"""What the server writes of its datagrams and windows."""
TRIALS = "trials.jsonl"
"""What the guest wrote of its trials."""
RESULTS = (TRIALS, "*.pcap", "*qlog", SENDER_LOG)
"""What a second run repeats byte for byte: trials, captures, logs of clients and of the server."""


def rows(folder: Path) -> list[dict[str, Any]]:
    """Return the rows (testbed_trial) of a block that is complete in `folder`.

    InputError if one is no row.
    """
    file = folder / ROWS
    try:
        return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError) as error:
        raise InputError(f"{file} has a line that is no row: remove its folder, and run again") from error


def digest(folder: Path) -> str:
    """Return the SHA-256 over names and contents of RESULTS, for a block whose guest exited normally."""
    whole = hashlib.sha256()
    for file in sorted({file for pattern in RESULTS for file in folder.glob(pattern)}):
        whole.update(f"{file.name}\n{file.stat().st_size}\n".encode() + file.read_bytes())
    return whole.hexdigest()


def digests(folder: Path) -> dict[str, str]:
    """Return hashes keyed by block name, for the blocks in an experiment's folder that have captures."""
    found = sorted(path.parent for path in folder.glob(f"*/*/{CAPTURE}"))
    return {f"{one.parent.name}/{one.name}": digest(one) for one in found if not one.suffix}
