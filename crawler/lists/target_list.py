"""The common form of target lists, and the parser of their lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from crawler.lists.distinct_targets import DistinctTargets, Target
from firstflight.errors import InputError
from firstflight.host_names import NotAName, normalise, quoted

# Ranks are stored as uint32.
MAX_RANK = 2**32 - 1
# A `#` within a word starts no comment. Otherwise, the text before it would become another name.
_COMMENT = re.compile(r"(?:^|\s)#.*", re.DOTALL)


class Rejected(NamedTuple):
    """A line that is not used. `line` counts from 1."""

    line: int
    reason: str


@dataclass
class TargetList:
    """A parsed list: the distinct `targets` in order, `rejected` lines, and the number of `duplicates`."""

    list_id: str
    targets: DistinctTargets = field(default_factory=DistinctTargets)
    rejected: list[Rejected] = field(default_factory=list)
    duplicates: int = 0
    lines: int = 0  # valid and rejected lines


def read_lines(
    list_id: str, lines: Iterable[tuple[int, str]], top: int | None, scratch: Path | None = None
) -> TargetList:
    """Read `(line number, text)` pairs, each `domain` or `rank,domain`; at most the first `top` pairs.

    Rejects invalid lines and continues. Keeps the first of repeated names. If a line has no rank, the rank is
    the line's position in `lines`, so correcting a rejected line changes no other rank. `scratch`: a
    folder for temporary files (DistinctTargets).
    """
    target_list = TargetList(list_id, DistinctTargets(scratch=scratch))
    for position, (number, text) in enumerate(lines, start=1):
        if top is not None and position > top:
            break
        target_list.lines += 1
        try:
            target_list.targets.append(_parse(text, position))
        except NotAName as error:
            target_list.rejected.append(Rejected(number, str(error)))
    target_list.duplicates = target_list.targets.repeated()
    return target_list


def data_lines(lines: Iterable[bytes]) -> Iterator[tuple[int, str]]:
    """Yield the lines in a list file that contain data, with their numbers.

    Skips blank lines, comments (a `#` at the start or after white space), a byte order mark and a header
    (`domain` or `rank,domain`). Bytes that are not UTF-8 become U+FFFD. No name may contain U+FFFD, so such a
    line is rejected.
    """
    first = True
    for number, raw in enumerate(lines, start=1):
        text = (raw.removeprefix(b"\xef\xbb\xbf") if number == 1 else raw).decode("utf-8", errors="replace")
        text = _COMMENT.sub("", text).strip()
        if not text:
            continue
        header = first and text.lower().replace(" ", "") in ("domain", "rank,domain")
        first = False
        if not header:
            yield number, text


def _parse(text: str, position: int) -> Target:
    fields = [part.strip().strip('"') for part in text.split(",")]
    if len(fields) == 1:
        return Target(position, normalise(fields[0]))
    if len(fields) > 2:
        raise NotAName(f"{quoted(text)} has {len(fields)} fields; write `domain` or `rank,domain`")
    rank, name = fields
    if not (rank.isascii() and rank.isdigit() and len(rank) <= 10 and 1 <= int(rank) <= MAX_RANK):
        raise NotAName(
            f"{quoted(rank)} is not a rank (a whole number from 1); write `domain` or `rank,domain`"
        )
    return Target(int(rank), normalise(name))


def joined(first: TargetList, second: TargetList, scratch: Path | None = None) -> TargetList:
    """Join two lists: the names of `first`, then the names that are only in `second`.

    A name in both lists has the rank from `first` and the bucket from `second`. `rejected` has the rejected
    lines of `first`, then of `second`. `scratch`: a folder for temporary files (DistinctTargets).
    """
    ranked = (target._replace(rank_bucket=None) for target in first.targets)
    targets = DistinctTargets(chain(ranked, second.targets), scratch)
    return TargetList(
        f"{first.list_id}+{second.list_id}",
        targets,
        first.rejected + second.rejected,
        first.duplicates + second.duplicates,
        first.lines + second.lines,
    )


def check_not_empty(target_list: TargetList) -> None:
    """Raise InputError, with the first rejected line, if the list has no name."""
    if target_list.targets:
        return
    if not target_list.rejected:
        raise InputError(f"the target list {target_list.list_id} holds no name")
    line, reason = target_list.rejected[0]
    raise InputError(
        f"the target list {target_list.list_id} holds no name: {len(target_list.rejected)} lines were "
        f"rejected, line {line}: {reason}"
    )
