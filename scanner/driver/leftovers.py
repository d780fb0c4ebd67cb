"""What an earlier start of a stage left: an engine that still runs, files that a power cut cut short."""

from __future__ import annotations

from collections.abc import Callable, Sized
from pathlib import Path

import pyarrow as pa

from firstflight.errors import InputError
from firstflight.run.engines import await_engine
from firstflight.system import files, progress
from scanner.driver.segments import closed_segments

# Engines do not wait for the disk between two packets, so their last segments may be in its cache alone.
SET_ASIDE = ".cut"


def settle(folder: Path, look: Callable[[], None]) -> list[str]:
    """Wait until no engine works in a stage's `folder`, then set aside what a power cut has cut short there.

    That is: segments without content, those at the end that are no Arrow files, a summary that is no JSON.
    They get the suffix `.cut`. Their targets are measured again, as are those that a killed engine had in
    flight; planned probes whose time is over are not. Return a sentence about them, if there are any, for the
    report's warnings. `look` is called ten times a second while it waits, and may raise to end the wait.
    Raises OutputError.
    """
    await_engine(folder / "segments", look)
    cut = [*_cut_segments(folder / "segments"), *_cut_summary(folder / "summary.json")]
    for path in cut:
        with files.explain_os_errors(path):
            path.rename(path.with_name(path.name + SET_ASIDE))
    if not cut:
        return []
    warning = (
        f"in {folder} {_count(cut)} cut short, as by a power cut, and set aside as *{SET_ASIDE}; what was in "
        "there is measured again, but for planned probes"
    )
    progress.print_line(warning)
    return [warning]


def _count(found: Sized) -> str:
    return "1 file was" if len(found) == 1 else f"{len(found)} files were"


def _cut_segments(folder: Path) -> set[Path]:
    """Return segments in `folder` and below that were cut short, and those whose rows lost others by it."""
    own = closed_segments(folder)
    cut = _unreadable(own)
    beside = {path for below in folder.glob("*/") for path in _unreadable(closed_segments(below))}
    if beside:
        # What rows bring along is closed before them.
        since_ns = min(path.stat().st_mtime_ns for path in beside)
        cut |= {path for path in own if path.stat().st_mtime_ns >= since_ns}
    return cut | beside


def _unreadable(closed: list[Path]) -> set[Path]:
    """Return the empty ones, and those at the end that cannot be read."""
    empty = {path for path in closed if path.stat().st_size == 0}
    left = [path for path in closed if path not in empty]
    while left and not _is_arrow(left[-1]):
        empty.add(left.pop())
    return empty


def _is_arrow(path: Path) -> bool:
    try:
        with pa.memory_map(str(path)) as source:
            pa.ipc.open_file(source)
    except pa.ArrowInvalid:
        return False
    return True


def _cut_summary(path: Path) -> list[Path]:
    try:
        files.read_json(path)
    except InputError:
        return [path] if path.is_file() else []
    return []
