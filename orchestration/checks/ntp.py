"""The kernel's state of this machine's clock (adjtimex(2)), as NTP daemons set it. Sends no packets."""

from __future__ import annotations

import ctypes
import os
from typing import ClassVar, NamedTuple

_UNSYNCHRONISED = 0x40  # STA_UNSYNC
_UNSURE_US = 16_000_000  # the kernel's own bound, beyond which it calls a clock unsynchronised


class Discipline(NamedTuple):
    """Whether the clock is synchronised, its maximum error, and the length of a tick, in microseconds."""

    is_synchronised: bool
    error_us: int
    tick_us: int


class _Timex(ctypes.Structure):
    """The beginning of struct timex with room for its rest, on 64-bit machines."""

    _fields_: ClassVar = [
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("constant", ctypes.c_long),
        ("precision", ctypes.c_long),
        ("tolerance", ctypes.c_long),
        ("time", ctypes.c_long * 2),
        ("tick", ctypes.c_long),
        ("rest", ctypes.c_char * 256),
    ]


def discipline() -> Discipline:
    """Return the kernel's state of the clock; OSError if it is not available."""
    library = ctypes.CDLL(None, use_errno=True)
    timex = _Timex()  # modes 0: read only
    if library.adjtimex(ctypes.byref(timex)) < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    is_synchronised = not timex.status & _UNSYNCHRONISED and timex.maxerror < _UNSURE_US
    return Discipline(is_synchronised, int(timex.maxerror), int(timex.tick))
