"""Runs the tools that build testbed-only programs."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from firstflight.errors import FirstflightError


def run(argv: list[str], folder: Path, needed: str, environment: Mapping[str, str] | None = None) -> str:
    """Run a tool in `folder`; return the output. `needed` explains the need, for the message.

    FirstflightError if it is not installed, or fails.
    """
    try:
        done = subprocess.run(
            argv,
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    except FileNotFoundError as error:
        raise FirstflightError(f"{argv[0]} is not installed, and {needed}") from error
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["it gave no reason"]
        reason = next((line for line in lines if "error" in line), lines[-1])
        raise FirstflightError(f"{' '.join(argv[:2])} failed in {folder}: {reason}")
    return done.stdout
