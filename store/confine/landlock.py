"""Landlock (landlock(7)): restricts this process to named folders and files.

A ruleset binds the calling thread and its later descendants, so it must precede the engine's threads.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable
from pathlib import Path

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every architecture
_VERSION = 1  # flag of landlock_create_ruleset: return the ABI version
_PATH_BENEATH = 1
_PR_SET_NO_NEW_PRIVS = 38

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _IOCTL = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 15
_REFER, _TRUNCATE = 1 << 13, 1 << 14
_REMOVE_DIR, _REMOVE_FILE, _MAKE_DIR, _MAKE_REG = 1 << 4, 1 << 5, 1 << 7, 1 << 8
# Number of file rights per ABI; later ABIs append to the list.
_RIGHTS_BY_ABI = {1: 13, 2: 14, 3: 15, 4: 15}
_ALL_RIGHTS = 16
_TCP_BIND_AND_CONNECT = 3  # from ABI 4 on
_SIGNALS_AND_ABSTRACT_SOCKETS = 3  # from ABI 6 on: to processes outside
_ON_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL
_READ = _READ_FILE | _READ_DIR
# Removes and renames entries, but creates and writes no file.
_TIDY = _READ | _REMOVE_DIR | _REMOVE_FILE | _MAKE_DIR | _REFER
# Adds files to a folder without reading it.
_ADD = _MAKE_DIR | _MAKE_REG | _WRITE_FILE | _TRUNCATE | _REMOVE_FILE | _REFER

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


class _Ruleset(ctypes.Structure):
    _fields_ = (("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


def abi() -> int:
    """Return the kernel's Landlock ABI version; 0 if Landlock is missing or disabled."""
    version = _libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION))
    return max(0, int(version))


def no_new_privileges() -> None:
    """Set no_new_privs, which the kernel requires before Landlock and seccomp. OSError if it fails."""
    if _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise _error("prctl")


def restrict(
    readable: Iterable[Path],
    writable: Iterable[Path],
    *,
    tidied: Iterable[Path] = (),
    added_to: Iterable[Path] = (),
) -> None:
    """Allow only reading below `readable` and all access below `writable`; no TCP, no signals to others.

    Below `tidied`, entries can be removed and renamed, but no file can be written. Below `added_to`, files
    can be created and replaced, but not read. Paths that cannot be opened are skipped. Open files stay
    usable. OSError if the kernel refuses.
    """
    version = abi()
    rights = (1 << _RIGHTS_BY_ABI.get(version, _ALL_RIGHTS)) - 1
    ruleset = _Ruleset(
        rights,
        _TCP_BIND_AND_CONNECT if version >= 4 else 0,
        _SIGNALS_AND_ABSTRACT_SOCKETS if version >= 6 else 0,
    )
    # Older kernels know a shorter structure, and accept a longer one if the rest is zero.
    handle = _libc.syscall(
        _CREATE_RULESET, ctypes.byref(ruleset), ctypes.c_size_t(ctypes.sizeof(ruleset)), ctypes.c_uint32(0)
    )
    if handle < 0:
        raise _error("landlock_create_ruleset")
    try:
        for paths, wanted in (
            (readable, _READ), (writable, ~_EXECUTE), (tidied, _TIDY), (added_to, _ADD)
        ):  # fmt: skip
            for path in paths:
                _allow(handle, path, rights & wanted)
        if _libc.syscall(_RESTRICT_SELF, ctypes.c_int(handle), ctypes.c_uint32(0)):
            raise _error("landlock_restrict_self")
    finally:
        os.close(handle)


def _allow(handle: int, path: Path, rights: int) -> None:
    try:
        parent = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:  # an unreachable path needs no rule
        return
    try:
        rule = _PathBeneath(rights if path.is_dir() else rights & _ON_FILES, parent)
        arguments = ctypes.c_int(handle), ctypes.c_int(_PATH_BENEATH), ctypes.byref(rule), ctypes.c_uint32(0)
        if _libc.syscall(_ADD_RULE, *arguments):
            raise _error(f"landlock_add_rule for {path}")
    finally:
        os.close(parent)


def _error(message: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"{message}: {os.strerror(number)}")
