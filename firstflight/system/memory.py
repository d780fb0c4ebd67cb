"""The memory that this process may use."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path, PurePosixPath

# By the controllers that a line of /proc/self/cgroup names: the folder of these groups, and the file of a
# group that has its limit (cgroups(7), versions 2 and 1).
_FILES = {"": (".", "memory.max"), "memory": ("memory", "memory.limit_in_bytes")}


def usable_bytes(own: Path = Path("/proc/self/cgroup"), groups: Path = Path("/sys/fs/cgroup")) -> int:
    """Return the machine's memory in bytes, or less if a control group limits this process.

    systemd's MemoryMax and containers set such limits. The kernel kills processes in a group that exceeds its
    limit.
    """
    return min([os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), *_limits(own, groups)])


def _limits(own: Path, groups: Path) -> list[int]:
    """Return the limits of the process's groups and of the groups around them."""
    found = []
    with suppress(OSError, ValueError):
        for line in own.read_text(encoding="utf-8").splitlines():
            _, controllers, group = line.split(":", 2)
            if controllers in _FILES:
                folder, name = _FILES[controllers]
                inside = PurePosixPath(group.lstrip("/"))
                found += [_limit(groups / folder / path / name) for path in (inside, *inside.parents)]
    return [limit for limit in found if limit is not None]


def _limit(path: Path) -> int | None:
    """Return a group's limit; `None` if there is no limit, or it cannot be read."""
    try:
        text = path.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return None
    return int(text) if text.isdecimal() else None
