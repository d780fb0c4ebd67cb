"""The lab's view of the file system: a /run of its own, its resolver, its certificate authority.

All of it in the supervisor's mount namespace (whose mounts do not propagate), so the machine sees nothing.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

from firstflight.errors import FirstflightError

_MS_BIND = 0x1000
_libc = ctypes.CDLL(None, use_errno=True)


def own_run() -> None:
    """Put an empty /run in place, for `ip netns` and for what services write there."""
    _mount("lab", Path("/run"), "tmpfs", 0)


def own_file(file: Path, at: Path) -> None:
    """Show `file` in place of the file `at` (links followed); nothing if `at` never existed."""
    target = Path(os.path.realpath(at))
    if target.is_relative_to("/run") and not target.exists():
        # What lay there is hidden by our own /run.
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
    if target.exists():
        _mount(str(file), target, "none", _MS_BIND)


def own_folder(folder: Path, at: Path) -> None:
    """Show `folder` at `at` below /run, made if it is not there; another folder hides the one before."""
    at.mkdir(parents=True, exist_ok=True)
    if not at.samefile(folder):
        _mount(str(folder), at, "none", _MS_BIND)


def _mount(source: str, target: Path, kind: str, flags: int) -> None:
    if _libc.mount(source.encode(), str(target).encode(), kind.encode(), flags, None) != 0:
        raise FirstflightError(
            f"the lab cannot mount {source} at {target}: {os.strerror(ctypes.get_errno())}"
        )
