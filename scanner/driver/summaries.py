"""The summaries from a stage's engines, one per start. The newest is summary.json."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from firstflight.system import files

_NEWEST = "summary.json"
# Counts to add over all starts. Other values are from the newest summary.
_SUMS = ("missing_tx_stamps", "missing_rx_stamps")
_GREATEST = ("max_new_per_second",)


def set_aside(folder: Path) -> None:
    """Rename an earlier start's summary before an engine starts in a stage's folder.

    Otherwise it would be mistaken for the summary of an engine that is killed before it writes one.
    """
    newest = folder / _NEWEST
    if newest.is_file():
        with files.explain_os_errors(newest):
            newest.rename(folder / f"summary-{len(_earlier(folder)) + 1}.json")


def read(folder: Path) -> dict[str, Any]:
    """Return the newest summary, with the counts of all starts. InputError if one is missing or invalid.

    If a stage's last engine was stopped before it wrote a summary, the previous engine's summary is the
    newest.
    """
    paths = _earlier(folder)
    if not paths or (folder / _NEWEST).is_file():
        paths.append(folder / _NEWEST)
    total: dict[str, Any] = files.read_json(paths.pop())
    for path in paths:
        earlier = files.read_json(path)
        for name in _SUMS:
            if name in total:
                total[name] += earlier.get(name, 0)
        for name in _GREATEST:
            if name in total:
                total[name] = max(total[name], earlier.get(name, 0))
    return total


def exist(folder: Path) -> bool:
    """Return whether an engine has written a summary in any start."""
    return (folder / _NEWEST).is_file() or bool(_earlier(folder))


def _earlier(folder: Path) -> list[Path]:
    """Return the summaries of earlier starts, oldest first."""
    return sorted(folder.glob("summary-*.json"), key=lambda path: (len(path.name), path.name))
