"""The targets stage's part of the dry run."""

from __future__ import annotations

from itertools import islice

from crawler.lists import own_list, tranco_list
from crawler.lists.target_list import TargetList, check_not_empty
from firstflight.run.outline import NOTHING, Known, Outline
from firstflight.settings import Settings, Targets, Vantage
from firstflight.system.terminal import visible

FIRST = 5
"""Number of names to show."""
_SHOWN_REJECTED = 3


def outline(settings: Settings, known: Known, vantage: Vantage | None) -> Outline:  # noqa: ARG001
    """Return the source of the names, and the first names, if the list is on this machine.

    Raise InputError for a list that is unreadable or has no name, like the stage.
    """
    targets = settings.targets
    if targets.source == "file":
        assert targets.file is not None  # settings check it
        target_list = own_list.read(targets.file, targets.top)
        check_not_empty(target_list)
        count = len(target_list.targets)
        lines = (f"names: {targets.file}, at most {count}", *_read(target_list))
        return Outline(lines, traffic=NOTHING, sections=("targets",), known=Known(count))
    limit = _max_names(targets)
    lines = (f"names: {_source(targets)}" + ("" if limit is None else f", at most {limit}"),)
    sections = ("targets", "network")
    if targets.source == "tranco" and (first := _cached(targets)):
        lines += (_first_names(first, (limit or 0) > len(first)),)
        return Outline(lines, traffic=NOTHING, sections=sections, known=Known(limit))
    unknown = "the list is fetched, unless it is in the cache"
    return Outline(lines, unknown=unknown, sections=sections, known=Known(limit))


def _read(target_list: TargetList) -> tuple[str, ...]:
    """Return the first names, the number of duplicates, and the rejected lines."""
    first = [target.domain for target in islice(target_list.targets, FIRST)]
    lines = [_first_names(first, len(target_list.targets) > len(first))]
    if target_list.duplicates:
        lines.append(f"duplicate names: {target_list.duplicates}")
    if target_list.rejected:
        lines.append(f"rejected lines: {len(target_list.rejected)} of {target_list.lines}")
        lines += [
            f"  line {line.line}: {visible(line.reason)}" for line in target_list.rejected[:_SHOWN_REJECTED]
        ]
    return tuple(lines)


def _first_names(names: list[str], has_more: bool) -> str:
    return f"the first names: {', '.join(names)}{', ...' if has_more else ''}"


def _cached(targets: Targets) -> list[str]:
    """Return a cached Tranco list's first names; empty if the list is not in the cache."""
    path = tranco_list.cached(targets.cache_dir, targets.date, targets.list_id)
    return [] if path is None else tranco_list.first_names(path, min(FIRST, targets.top or FIRST))


def _max_names(targets: Targets) -> int | None:
    # Two lists may have no name in common.
    return targets.top and targets.top * (2 if targets.source == "tranco+crux" else 1)


def _source(targets: Targets) -> str:
    tranco = f"Tranco list {targets.list_id}" if targets.list_id else f"Tranco list of {targets.date}"
    crux = f"CrUX list of {targets.crux_month}"
    return {"crux": crux, "tranco+crux": f"{tranco} and {crux}"}.get(targets.source, tranco)
