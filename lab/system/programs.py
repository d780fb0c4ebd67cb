"""Finds the system programs that the lab runs."""

from __future__ import annotations

import shutil

from firstflight.errors import UsageError

# Daemons live in sbin, which is not in every user's PATH.
_PATH = "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin"


def program(name: str, package: str) -> str:
    """Return a system program's full path; UsageError names the Debian package if it is missing."""
    path = shutil.which(name, path=_PATH)
    if path is None:
        raise UsageError(f"the lab needs the program {name}: apt-get install {package}")
    return path
