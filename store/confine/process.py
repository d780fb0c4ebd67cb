"""Confines this process before the engine is in it, and says what the kernel cannot do."""

from __future__ import annotations

import os
import platform
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from store import served_address
from store.confine import landlock, seccomp

_NOWHERE = Path("/dev/null")
_TREE = Path(__file__).resolve().parents[2]
_OURS = ("cli", "firstflight", "orchestration", "reports", "schemas", "store")
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


@dataclass(frozen=True)
class Beside:
    """What a process needs beside its store: paths to read below, to read and write below, and folders to
    put files into that it does not read.
    """

    readable: Sequence[Path] = ()
    writable: Sequence[Path] = ()
    added_to: Sequence[Path] = ()


_NOTHING = Beside()
# What a process that is confined and not yet sealed may reach beside its store; none: it is not to be.
_unsealed: list[Beside] = []


def confine(store: Path, beside: Beside = _NOTHING, *, only_reads: bool = False) -> list[str]:
    """Leave this process the folder `store`, what is `beside`, libraries, and what is open; no new socket.

    `only_reads`: it is to be sealed, too, once it holds the store.
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
        landlock.restrict(
            [*_libraries(), *beside.readable],
            [store, *beside.writable, _NOWHERE],
            added_to=beside.added_to,
        )
        if only_reads:
            _unsealed.append(beside)
    else:
        lacking.append("this kernel has no Landlock: the engine's process is not kept from other files")
    if seccomp.supported():
        seccomp.restrict()
    else:
        lacking.append(
            f"no seccomp filter on this kernel ({platform.machine()}): the engine's process may make sockets"
        )
    return lacking


def seal(store: Path) -> None:
    """From now on this thread, and what it starts, writes no file of `store` that holds tables or rows.

    For a process that only reads and holds the store's lock, before the engine is in it; nothing happens in
    others. The engine opens the newest of each table's deduplication_logs for writing, locks `status`, and
    opens no table from which it cannot clear away what a writer that was killed has left. Definitions of
    tables are in folders of databases, to which metadata/ has links, and stay as they are.
    """
    if not _unsealed:
        return
    beside = _unsealed.pop()
    status = store / "status"
    status.touch(mode=0o600)  # it cannot be made afterwards
    databases = {path.resolve() for path in (store / "metadata").iterdir()}
    tables = [path for path in (store / "store").glob("*/*") if path.resolve() not in databases]
    logs = [path / "deduplication_logs" for path in tables]
    landlock.restrict(
        [Path("/")],
        [store / "tmp", store / served_address.LOCK, status, *logs, *beside.writable, _NOWHERE],
        tidied=tables,
        added_to=beside.added_to,
    )


def _libraries() -> list[Path]:
    known = sysconfig.get_paths()
    paths = {Path(known[name]) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    paths |= {Path(path) for path in sys.path if path.endswith("-packages")}
    paths |= {Path(sys.base_prefix) / "lib", Path(sys.prefix) / "lib"}
    paths |= {_TREE / name for name in _OURS} | {Path(path) for path in _SYSTEM}
    return sorted(paths)
