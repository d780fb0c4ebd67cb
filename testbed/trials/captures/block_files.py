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
"""The capture at the server, before the link."""
KEYS = "path.keys"
SENDER_LOG = "sender.jsonl"
"""The server's log of datagrams and windows."""
SERVER_LOGS = "server-logs"
"""The folder in a guest for the server's qlog files; a block has them as server-NAME."""
TRIALS = "trials.jsonl"
"""The guest's records of trials."""
RESULTS = (TRIALS, "*.pcap", "*qlog", SENDER_LOG)
"""Files that a second run repeats byte for byte: trials, captures, logs of clients and servers."""


def rows(folder: Path) -> list[dict[str, Any]]:
    """Return the rows (testbed_trial) in a complete block in `folder`.

    InputError if a line is not a row.
    """
    file = folder / ROWS
    try:
        return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError) as error:
        raise InputError(f"{file} has a line that is no row: remove its folder, and run again") from error


def digest(folder: Path) -> str:
    """Return the SHA-256 over names and contents of RESULTS, for a block with a normal exit of the guest."""
    sha256 = hashlib.sha256()
    for file in sorted({file for pattern in RESULTS for file in folder.glob(pattern)}):
        sha256.update(f"{file.name}\n{file.stat().st_size}\n".encode() + file.read_bytes())
    return sha256.hexdigest()


def digests(folder: Path) -> dict[str, str]:
    """Return hashes keyed by block name, for the blocks in an experiment's folder that have captures."""
    blocks = sorted(path.parent for path in folder.glob(f"*/*/{CAPTURE}"))
    return {f"{block.parent.name}/{block.name}": digest(block) for block in blocks if not block.suffix}
