"""The folder for the testbed's builds: kernels, programs, copies of stacks."""

from __future__ import annotations

import os
from pathlib import Path


def cache() -> Path:
    """Return the folder of the testbed in the user's cache (XDG Base Directory Specification)."""
    configured = os.environ.get("XDG_CACHE_HOME", "")
    # The specification: a relative path is invalid and is to be ignored.
    base = Path(configured) if Path(configured).is_absolute() else Path.home() / ".cache"
    return base / "firstflight" / "testbed"
