"""Confines this process before the engine is in it, and says what the kernel cannot do."""

from __future__ import annotations

import os
import platform
import sys
import sysconfig
import tempfile
from pathlib import Path

from firstflight.store.confine import landlock, seccomp

_TREE = Path(__file__).resolve().parents[3]
_OURS = ("cli", "firstflight", "schemas")
# What the engine reads of the system: libraries, its own memory and limits, the machine's size.
_SYSTEM = (
    "/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/etc/ld.so.cache", "/usr/share/zoneinfo",
    "/proc/self/maps", "/proc/self/statm", "/proc/self/status", "/proc/self/cgroup", "/proc/meminfo",
    "/proc/stat", "/proc/cpuinfo", "/sys/devices/system/cpu", "/sys/fs/cgroup",
    # The engine's allocator crashes at times where it cannot read the first two.
    "/proc/sys/vm/overcommit_memory", "/sys/kernel/mm/transparent_hugepage", "/proc/self/auxv",
    # A dictionary whose source names no host reads from `localhost`, which is looked up here.
    "/etc/hosts", "/etc/nsswitch.conf", "/etc/host.conf",
    "/dev/null", "/dev/zero", "/dev/urandom", "/dev/random",
)  # fmt: skip


def confine(store: Path) -> list[str]:
    """Leave this process the folder `store`, reading of libraries, and what is open; no new socket.

    Temporary files go below `store` from now on. Call it while there is one thread: threads that exist
    already would not be bound. Gives one sentence for each wall that this kernel lacks; what it has is in
    force. OSError if the kernel has one and refuses it.
    """
    if len(list(Path("/proc/self/task").iterdir())) > 1:
        raise RuntimeError("threads were started before the process was confined")
    temporary = store / "tmp"  # where the engine has its own, too
    temporary.mkdir(mode=0o700, exist_ok=True)
    os.environ["TMPDIR"] = tempfile.tempdir = str(temporary)
    lacking = []
    landlock.no_new_privileges()
    if landlock.abi():
        landlock.restrict(_libraries(), [store, Path("/dev/null")])
    else:
        lacking.append("this kernel has no Landlock: the engine's process is not kept from other files")
    if seccomp.supported():
        seccomp.restrict()
    else:
        lacking.append(
            f"no seccomp filter on this kernel ({platform.machine()}): the engine's process may make sockets"
        )
    return lacking


def _libraries() -> list[Path]:
    paths = {Path(path) for path in sysconfig.get_paths().values()}
    paths |= {Path(path) for path in sys.path if path.endswith("-packages")}
    paths |= {Path(sys.base_prefix) / "lib", Path(sys.prefix) / "lib"}
    paths |= {_TREE / name for name in _OURS} | {Path(path) for path in _SYSTEM}
    return sorted(paths)
