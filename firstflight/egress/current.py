"""Lists that change while a program runs: re-read after changes, and valid only while they are confirmed.

The native engines have the same rules (scanner/native/core/src/limits/policy/current.rs). A changed opt-out
list is read again when two consecutive checks have found the same version of the file. A block list is read
only once. An unreadable list is tried again. Entries stay listed even if the file no longer contains them. A
list `followed:FILE` in FIRSTFLIGHT_OPTOUT is valid only while FILE.confirmed is recent.
"""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Iterator, Sequence
from enum import IntEnum
from pathlib import Path

from firstflight.egress import lists
from firstflight.egress.lists import Range
from firstflight.errors import InputError, UsageError
from firstflight.system import terminal

VARIABLE = "FIRSTFLIGHT_OPTOUT"
"""Environment variable: `FILE`, or `followed:FILE` for a copy of the centre's list."""

FOLLOWED = "followed:"
LOOK_S = 0.25
BEGIN_FOR_S = 45.0
"""Seconds since the last confirmation after which no new probes start."""
SEND_FOR_S = 60.0
"""Seconds since the last confirmation after which no packet is sent."""

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_FileVersion = tuple[int, int, int, int]


class Trust(IntEnum):
    """What a followed list permits: no packets, only packets of started probes, or all packets."""

    NONE = 0
    ENDING = 1
    ALL = 2


class _ListFile:
    def __init__(self, path: Path, *, names_too: bool, is_followed: bool = False) -> None:
        self.path, self.names_too, self.is_followed = path, names_too, is_followed
        self.read: _FileVersion | None = None
        self.looked: _FileVersion | None = None
        # Why the file could not be read. Each check then tries again, because the remedy, such as another
        # file mode, may not change the version.
        self.unreadable: str | None = None
        self.is_good = False

    def entries(self) -> list[Range | str]:
        """Return the entries. Raise InputError for an invalid line or an unreadable file."""
        return list(lists.checked(self.path, names_too=self.names_too))


def machine_list() -> str | None:
    """Return the value of FIRSTFLIGHT_OPTOUT; `None` if unset. Raise UsageError if it has no file name.

    An empty value is a mistake in a unit file or a script, and must not count as no list.
    """
    value = os.environ.get(VARIABLE)
    if value in ("", FOLLOWED):
        raise UsageError(f"{VARIABLE}={value} names no file: name the list, or unset it; nothing was sent")
    return value


class Current:
    """A program's lists and the machine's list. Raise InputError if a program's list is unreadable.

    `machine`: the value of FIRSTFLIGHT_OPTOUT. By default it is read from the environment; UsageError if it
    has no file name.
    """

    def __init__(
        self, blocklists: Sequence[Path], optouts: Sequence[Path], machine: str | None = None
    ) -> None:
        value = (machine_list() or "") if machine is None else machine
        self.followed = Path(value.removeprefix(FOLLOWED)) if value.startswith(FOLLOWED) else None
        self._files = [_ListFile(path, names_too=False) for path in blocklists]
        self._files += [_ListFile(path, names_too=True) for path in optouts]
        if value and self.followed is None:
            self._files.append(_ListFile(Path(value), names_too=True))
        self._new: list[Range | str] = []
        for file in self._files:
            # The version is read before the content, so that a later change is noticed.
            file.read = file.looked = _version_of(file.path)
            self._new += file.entries()
        # Block lists do not change, and a file that is not a regular file cannot be read twice.
        self._files = [file for file in self._files if file.names_too and file.read is not None]
        if self.followed is not None:
            self._files.append(_ListFile(self.followed, names_too=True, is_followed=True))
        self._trust = Trust.ALL if self.followed is None else Trust.NONE
        self._next_look = 0.0

    def look(self) -> Trust:
        """Re-read changed lists, at most a few times a second. Return what may be sent."""
        now = time.monotonic()
        if now >= self._next_look:
            self._next_look = now + LOOK_S
            self._look()
        return self._trust

    def look_until_complete(self) -> Trust:
        """Check the lists. If a list is being changed, wait until it is complete."""
        trust = self.look()
        while any(file.looked is not None and file.looked != file.read for file in self._files):
            time.sleep(max(0.0, self._next_look - time.monotonic()))
            trust = self.look()
        return trust

    def take(self) -> Iterator[Range | str]:
        """Yield the entries added since the last call."""
        new, self._new = self._new, []
        yield from new

    def _look(self) -> None:
        # The confirmation is read first. The list is written before it, so the list is at least as recent.
        age_s = None if self.followed is None else age(self.followed)
        for file in self._files:
            self._read_again(file)
        if self.followed is None:
            return
        is_good = all(file.is_good for file in self._files if file.is_followed)
        if age_s is None or not is_good or age_s >= SEND_FOR_S:
            self._trust = Trust.NONE
        else:
            self._trust = Trust.ALL if age_s < BEGIN_FOR_S else Trust.ENDING

    def _read_again(self, file: _ListFile) -> None:
        previous, file.looked = file.looked, _version_of(file.path)
        # A followed list is replaced atomically, so it is never partial.
        is_whole = file.is_followed or previous == file.looked
        is_due = file.looked != file.read or file.unreadable is not None
        if file.looked is None or not is_whole or not is_due:
            return
        file.read = file.looked
        reported, file.unreadable = file.unreadable, None
        try:
            self._new += file.entries()
            file.is_good = True
        except InputError as error:
            file.is_good = False
            why = str(error).removesuffix("; correct it, nothing was sent").removesuffix("; nothing was sent")
            if isinstance(error.__cause__, OSError):
                file.unreadable = why
            if why != reported:
                terminal.echo(f"lists: {why}; what the lists named before stays in force", err=True)


def confirmation() -> str:
    """Return the content of FILE.confirmed for a list that is confirmed now."""
    return json.dumps({"boot": _boot(), "at_ns": time.clock_gettime_ns(time.CLOCK_BOOTTIME)}) + "\n"


def confirmed_file(followed: Path) -> Path:
    """Return the path for a followed list's confirmation."""
    return followed.with_name(f"{followed.name}.confirmed")


def age(followed: Path) -> float | None:
    """Return the seconds since a followed list was confirmed; `None` if unknown or before the last boot."""
    try:
        content = json.loads(confirmed_file(followed).read_bytes())
        boot, at_ns = content["boot"], content["at_ns"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    ago_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - at_ns if type(at_ns) is int else -1
    return ago_ns / 1e9 if boot == _boot() and ago_ns >= 0 else None


def _boot() -> str:
    return _BOOT_ID.read_text(encoding="ascii").strip()


def _version_of(path: Path) -> _FileVersion | None:
    """Return values that differ after a regular file has changed; else `None`."""
    try:
        status = path.stat()
    except OSError:
        return None
    return (
        (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
        if stat.S_ISREG(status.st_mode)
        else None
    )
