"""seccomp (seccomp(2)): forbids this process to create sockets and to start programs.

Existing sockets stay usable, and a listening one accepts connections. A refused call returns EPERM, which the
engine reports like any other error. The filter binds the calling thread and its later descendants.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct

_PR_SET_SECCOMP, _MODE_FILTER = 22, 2

# Opcodes of classic BPF: load a word of seccomp_data, compare, return.
_LOAD, _JUMP_IF_EQUAL, _JUMP_IF_AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_NUMBER_AT, _ARCHITECTURE_AT = 0, 4
_ALLOW, _REFUSE, _KILL = 0x7FFF0000, 0x00050000 | 1, 0x80000000  # refuse: EPERM
_X32 = 0x40000000  # base of the system call numbers of the x32 ABI, a second set of numbers on x86-64

# Numbers of the refused calls: (x86-64, aarch64).
_REFUSED = {
    "socket": (41, 198), "connect": (42, 203), "bind": (49, 200), "listen": (50, 201),
    "execve": (59, 221), "execveat": (322, 281), "ptrace": (101, 117),
    "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "pidfd_getfd": (438, 438),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51),
    "unshare": (272, 97), "setns": (308, 268), "open_by_handle_at": (304, 265), "bpf": (321, 280),
    "perf_event_open": (298, 241), "userfaultfd": (323, 282), "add_key": (248, 217), "keyctl": (250, 219),
    "request_key": (249, 218), "init_module": (175, 105), "finit_module": (313, 273),
    "kexec_load": (246, 104), "kexec_file_load": (320, 294),
}  # fmt: skip
_ARCHITECTURES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}

_libc = ctypes.CDLL(None, use_errno=True)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))


def supported() -> bool:
    """Return whether the filter supports this architecture and the kernel supports filters."""
    if platform.machine() not in _ARCHITECTURES:
        return False
    # Without a program, the call fails with EFAULT if the kernel supports filters.
    refused = _libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, None, 0, 0)
    return bool(refused) and ctypes.get_errno() == 14  # EFAULT


def restrict() -> None:
    """Install the filter; requires `landlock.no_new_privileges`. OSError if the kernel refuses it."""
    code = _filter()
    buffer = ctypes.create_string_buffer(code, len(code))
    program = _Program(len(code) // 8, ctypes.cast(buffer, ctypes.c_void_p))
    if _libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(program), 0, 0):
        number = ctypes.get_errno()
        raise OSError(number, f"seccomp: {os.strerror(number)}")


def _filter() -> bytes:
    architecture, column = _ARCHITECTURES[platform.machine()]
    numbers = [pair[column] for pair in _REFUSED.values()]
    steps = [
        (_LOAD, 0, 0, _ARCHITECTURE_AT),
        (_JUMP_IF_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _KILL),  # a call of a 32-bit program, which this process is not
        (_LOAD, 0, 0, _NUMBER_AT),
        (_JUMP_IF_AT_LEAST, len(numbers) + 1, 0, _X32),
    ]
    for to_skip, number in zip(range(len(numbers), 0, -1), numbers, strict=True):
        steps.append((_JUMP_IF_EQUAL, to_skip, 0, number))
    steps += [(_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _REFUSE)]
    return b"".join(struct.pack("<HBBI", *step) for step in steps)
