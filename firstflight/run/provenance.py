"""Provenance of rows: version of the software, hash of the rules in force."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

from firstflight.system import files


@cache
def tool_version() -> str:
    """Return the package's version with the checkout's commit, marked if files have changed.

    Without a checkout, the commit is in firstflight/COMMIT, which an installation writes.
    """
    package = Path(__file__).resolve().parents[1]
    recorded = package / "COMMIT"
    if recorded.is_file():
        commit = recorded.read_text(encoding="utf-8").strip()
    else:
        command = ["git", "-C", str(package), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
        try:
            commit = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        except (OSError, subprocess.CalledProcessError):
            commit = "unknown"
    return f"{version('firstflight')}+{commit}"


def ruleset_hash(rule_files: Sequence[Path]) -> str:
    """Return a short hash of rule files and their order (CDN map, rules, block and opt-out lists)."""
    digest = sha256()
    for path in rule_files:
        digest.update(bytes.fromhex(files.sha256_of(path)))
    return digest.hexdigest()[:12]
