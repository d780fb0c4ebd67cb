"""Confines this process before it loads the engine, and reports protections that the kernel lacks."""

from __future__ import annotations

import os
import platform
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from store.address import served_address
from store.confine import landlock, seccomp

_NOWHERE = Path("/dev/null")
_TREE = Path(__file__).resolve().parents[2]
_OURS = ("cli", "firstflight", "orchestration", "reports", "schemas", "store")
# System files that the engine reads: libraries, its own memory and limits, the machine's size.
_SYSTEM = (
    "/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/etc/ld.so.cache", "/usr/share/zoneinfo",
    "/proc/self/maps", "/proc/self/statm", "/proc/self/status", "/proc/self/cgroup", "/proc/meminfo",
    "/proc/stat", "/proc/cpuinfo", "/sys/devices/system/cpu", "/sys/fs/cgroup",
    # The engine's allocator sometimes crashes if it cannot read the first two.
    "/proc/sys/vm/overcommit_memory", "/sys/kernel/mm/transparent_hugepage", "/proc/self/auxv",
    # A dictionary source without a host reads from `localhost`, which these files resolve.
    "/etc/hosts", "/etc/nsswitch.conf", "/etc/host.conf",
    "/dev/null", "/dev/zero", "/dev/urandom", "/dev/random",
)  # fmt: skip


@dataclass(frozen=True)
class OutsidePaths:
    """Paths that a process needs outside its store.

    Paths to read, paths to read and write, and folders in which to create files without reading them.
    """

    readable: Sequence[Path] = ()
    writable: Sequence[Path] = ()
    added_to: Sequence[Path] = ()


_NOTHING = OutsidePaths()
# Paths outside the store of a process that is confined and not yet sealed; empty: no seal is due.
_unsealed: list[OutsidePaths] = []


def confine(store: Path, outside: OutsidePaths = _NOTHING, *, only_reads: bool = False) -> list[str]:
    """Restrict this process to the folder `store`, `outside`, libraries and open files; forbid new sockets.

    `only_reads`: the process will also call `seal`, once it holds the store.
    From now on, temporary files are created below `store`. Call this while the process has only one thread,
    because existing threads would not be bound. Returns one sentence for each protection that this kernel
    lacks; the others are in force. OSError if the kernel has a protection but refuses it.
    """
    if len(list(Path("/proc/self/task").iterdir())) > 1:
        raise RuntimeError("threads were started before the process was confined")
    temporary = store / "tmp"  # the engine uses this folder, too
    temporary.mkdir(mode=0o700, exist_ok=True)
    os.environ["TMPDIR"] = tempfile.tempdir = str(temporary)
    lacking = []
    landlock.no_new_privileges()
    if landlock.abi():
        landlock.restrict(
            [*_libraries(), *outside.readable],
            [store, *outside.writable, _NOWHERE],
            added_to=outside.added_to,
        )
        if only_reads:
            _unsealed.append(outside)
    else:
        lacking.append("this kernel has no Landlock: the engine's process can reach other files")
    if seccomp.supported():
        seccomp.restrict()
    else:
        lacking.append(
            f"no seccomp filter on this kernel ({platform.machine()}): the engine's process can open sockets"
        )
    return lacking


def seal(store: Path) -> None:
    """Forbid this thread and its descendants to write files of `store` that hold tables or rows.

    Call this in a process that only reads and that holds the store's lock, before it loads the engine; in
    other processes it does nothing. The engine opens the newest of each table's deduplication_logs for
    writing, locks `status`, and refuses a table from which it cannot remove a killed writer's remains. Table
    definitions are in folders of databases, to which metadata/ links, and stay protected.
    """
    if not _unsealed:
        return
    outside = _unsealed.pop()
    status = store / "status"
    status.touch(mode=0o600)  # it cannot be created afterwards
    databases = {path.resolve() for path in (store / "metadata").iterdir()}
    tables = [path for path in (store / "store").glob("*/*") if path.resolve() not in databases]
    logs = [path / "deduplication_logs" for path in tables]
    landlock.restrict(
        [Path("/")],
        [store / "tmp", store / served_address.LOCK, status, *logs, *outside.writable, _NOWHERE],
        tidied=tables,
        added_to=outside.added_to,
    )


def _libraries() -> list[Path]:
    known = sysconfig.get_paths()
    paths = {Path(known[name]) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    paths |= {Path(path) for path in sys.path if path.endswith("-packages")}
    paths |= {Path(sys.base_prefix) / "lib", Path(sys.prefix) / "lib"}
    paths |= {_TREE / name for name in _OURS} | {Path(path) for path in _SYSTEM}
    return sorted(paths)
