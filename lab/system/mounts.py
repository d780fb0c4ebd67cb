"""The lab's view of the file system: its own /run, resolver and certificate authority.

All mounts are in the supervisor's mount namespace and do not propagate, so the machine is not affected.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

from firstflight.errors import FirstflightError

_MS_BIND = 0x1000
_libc = ctypes.CDLL(None, use_errno=True)


def own_run() -> None:
    """Mount an empty /run, for `ip netns` and for services that write there."""
    _mount("lab", Path("/run"), "tmpfs", 0)


def own_file(file: Path, mount_point: Path) -> None:
    """Mount `file` over `mount_point` (following links); does nothing if `mount_point` does not exist."""
    target = Path(os.path.realpath(mount_point))
    if target.is_relative_to("/run") and not target.exists():
        # The target is hidden by the lab's own /run.
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
    if target.exists():
        _mount(str(file), target, "none", _MS_BIND)


def own_folder(folder: Path, mount_point: Path) -> None:
    """Mount `folder` at `mount_point` below /run, created if missing; a later folder hides an earlier one."""
    mount_point.mkdir(parents=True, exist_ok=True)
    if not mount_point.samefile(folder):
        _mount(str(folder), mount_point, "none", _MS_BIND)


def _mount(source: str, target: Path, kind: str, flags: int) -> None:
    if _libc.mount(source.encode(), str(target).encode(), kind.encode(), flags, None) != 0:
        raise FirstflightError(
            f"the lab cannot mount {source} at {target}: {os.strerror(ctypes.get_errno())}"
        )
