"""Leftovers of an earlier start of a stage: a running engine, and files truncated by a power cut."""

from __future__ import annotations

from collections.abc import Callable, Sized
from pathlib import Path

import pyarrow as pa

from firstflight.errors import InputError
from firstflight.run.engines import await_engine
from firstflight.system import files
from firstflight.system.reporting import progress
from scanner.driver.segments import closed_segments

# Engines do not wait for the disk between two packets, so their last segments may only be in its cache.
SET_ASIDE = ".cut"


def settle(folder: Path, check: Callable[[], None]) -> list[str]:
    """Wait until no engine works in a stage's `folder`, then set aside files that a power cut truncated.

    These are empty segments, last segments that are not Arrow files, and a summary that is not JSON. They get
    the suffix `.cut`. Their targets are measured again, like the targets that a killed engine had in flight.
    Planned probes in the past are not repeated.

    Return a sentence about these files, if any, for the report's warnings. `check` is called ten times a
    second while waiting, and may raise to stop. Raise OutputError.
    """
    await_engine(folder / "segments", check)
    cut = [*_cut_segments(folder / "segments"), *_cut_summary(folder / "summary.json")]
    for path in cut:
        with files.explain_os_errors(path):
            path.rename(path.with_name(path.name + SET_ASIDE))
    if not cut:
        return []
    warning = (
        f"in {folder} {_count(cut)} cut short, as by a power cut, and set aside as *{SET_ASIDE}; their "
        "targets are measured again, except for planned probes"
    )
    progress.print_line(warning)
    return [warning]


def _count(paths: Sized) -> str:
    return "1 file was" if len(paths) == 1 else f"{len(paths)} files were"


def _cut_segments(folder: Path) -> set[Path]:
    """Return truncated segments in `folder` and below, and segments whose rows lost related rows."""
    segments = closed_segments(folder)
    cut = _unreadable(segments)
    cut_below = {path for subfolder in folder.glob("*/") for path in _unreadable(closed_segments(subfolder))}
    if cut_below:
        # Segments with related rows are closed before the segments of the rows themselves.
        since_ns = min(path.stat().st_mtime_ns for path in cut_below)
        cut |= {path for path in segments if path.stat().st_mtime_ns >= since_ns}
    return cut | cut_below


def _unreadable(closed: list[Path]) -> set[Path]:
    """Return the empty segments, and the last segments if they are unreadable."""
    empty = {path for path in closed if path.stat().st_size == 0}
    remaining = [path for path in closed if path not in empty]
    while remaining and not _is_arrow(remaining[-1]):
        empty.add(remaining.pop())
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
