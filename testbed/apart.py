"""Builds clients that are Cargo packages of their own, outside of the workspace.

Their stack would change how the workspace's other programs are built: a feature that it asks of a crate, or a
library in C that takes minutes. A client's manifest names the folder (`package`); the folder has its
own lock file.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from firstflight.errors import FirstflightError
from firstflight.system import binaries
from testbed import stacks


def packages() -> dict[str, Path]:
    """Return the folder of each program that is a Cargo package of its own, by the program's name."""
    clients = (one.client for one in stacks.load().values() if one.client and one.client.package)
    folders = {str(one.program): binaries.repository() / str(one.package) for one in clients}
    return {program: folder for program, folder in folders.items() if (folder / "Cargo.toml").is_file()}


def build_all() -> list[str]:
    """Build all that are not up to date into target/release; return their names.

    FirstflightError if cargo is missing or fails.
    """
    found = packages()
    for folder in found.values():
        _build(folder)
    return list(found)


def _build(folder: Path) -> None:
    target = str(binaries.repository() / "target")
    argv = ["cargo", "build", "--quiet", "--release", "--locked", "--target-dir", target]
    try:
        done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, errors="replace", check=False)
    except FileNotFoundError as error:
        raise FirstflightError(f"cargo is not installed, and {folder} is built by it") from error
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["it gave no reason"]
        reason = next((line for line in lines if "error" in line), lines[-1])
        raise FirstflightError(f"cargo build failed in {folder}: {reason}")
