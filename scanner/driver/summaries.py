"""The summaries of a stage's engines: one of each start that wrote one, the newest in summary.json."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from firstflight.system import files

_NEWEST = "summary.json"
# What counts of all starts together; everything else is the newest one's.
_SUMS = ("missing_tx_stamps", "missing_rx_stamps")
_GREATEST = ("max_new_per_second",)


def set_aside(folder: Path) -> None:
    """Give the summary of an earlier start another name, before an engine starts in a stage's folder.

    Otherwise it would be taken for that of an engine that is killed before it writes its own.
    """
    newest = folder / _NEWEST
    if newest.is_file():
        with files.explain_os_errors(newest):
            newest.rename(folder / f"summary-{len(_earlier(folder)) + 1}.json")


def read(folder: Path) -> dict[str, Any]:
    """Return the newest summary, with what counts of all. InputError if there is none, or one is broken.

    Of a stage whose last engine was stopped before it wrote one, it is that of the engine before.
    """
    paths = _earlier(folder)
    if not paths or (folder / _NEWEST).is_file():
        paths.append(folder / _NEWEST)
    found: dict[str, Any] = files.read_json(paths.pop())
    for path in paths:
        earlier = files.read_json(path)
        for name in _SUMS:
            if name in found:
                found[name] += earlier.get(name, 0)
        for name in _GREATEST:
            if name in found:
                found[name] = max(found[name], earlier.get(name, 0))
    return found


def exist(folder: Path) -> bool:
    """Return whether an engine of any start wrote its summary."""
    return (folder / _NEWEST).is_file() or bool(_earlier(folder))


def _earlier(folder: Path) -> list[Path]:
    """Return the summaries of earlier starts, oldest first."""
    return sorted(folder.glob("summary-*.json"), key=lambda path: (len(path.name), path.name))
