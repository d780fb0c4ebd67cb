"""The common form of target lists, and the parser of their lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from crawler.lists.distinct_targets import DistinctTargets, Target
from firstflight.host_names import NotAName, normalise, shown

# Ranks are stored as uint32.
MAX_RANK = 2**32 - 1
# A `#` within a word begins no comment: what is in front of it would become another name.
_COMMENT = re.compile(r"(?:^|\s)#.*", re.DOTALL)


class Rejected(NamedTuple):
    """A line that is not used; `line` counts from 1."""

    line: int
    reason: str


@dataclass
class TargetList:
    """A parsed list: `targets` in its order, each name once; `rejected` lines; number of `duplicates`."""

    list_id: str
    targets: DistinctTargets = field(default_factory=DistinctTargets)
    rejected: list[Rejected] = field(default_factory=list)
    duplicates: int = 0
    lines: int = 0  # lines that hold, or should hold, a name


def read_lines(
    list_id: str, lines: Iterable[tuple[int, str]], top: int | None, scratch: Path | None = None
) -> TargetList:
    """Read `(line number, text)` pairs, each `domain` or `rank,domain`; the first `top` of them, if given.

    Invalid lines are rejected and the others used; of a repeated name the first counts. A name without a rank
    is ranked by the position of its line among `lines`, so that correcting a rejected line changes no other
    rank. `scratch`: as of DistinctTargets.
    """
    found = TargetList(list_id, DistinctTargets(scratch=scratch))
    for position, (number, text) in enumerate(lines, start=1):
        if top is not None and position > top:
            break
        found.lines += 1
        try:
            found.targets.append(_parse(text, position))
        except NotAName as error:
            found.rejected.append(Rejected(number, str(error)))
    found.duplicates = found.targets.repeated()
    return found


def data_lines(lines: Iterable[bytes]) -> Iterator[tuple[int, str]]:
    """Yield those of a list file's lines that hold data, with their numbers.

    Skips blank lines, comments (a `#` at the beginning or after white space), a byte order mark and a header
    (`domain` or `rank,domain`). Bytes that are not UTF-8 become U+FFFD, which no name may hold, so the line
    is rejected.
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
        raise NotAName(f"{shown(text)} has {len(fields)} fields; write `domain` or `rank,domain`")
    rank, name = fields
    if not (rank.isascii() and rank.isdigit() and len(rank) <= 10 and 1 <= int(rank) <= MAX_RANK):
        raise NotAName(
            f"{shown(rank)} is not a rank (a whole number from 1); write `domain` or `rank,domain`"
        )
    return Target(int(rank), normalise(name))


def joined(first: TargetList, second: TargetList, scratch: Path | None = None) -> TargetList:
    """Join two lists: the names of `first`, then those that only `second` has.

    A name in both keeps its rank of the first and gets its bucket of the second; `rejected` holds the
    rejected lines of the first, then those of the second. `scratch`: as of DistinctTargets.
    """
    ranked = (target._replace(rank_bucket=None) for target in first.targets)
    both = DistinctTargets(chain(ranked, second.targets), scratch)
    return TargetList(
        f"{first.list_id}+{second.list_id}",
        both,
        first.rejected + second.rejected,
        first.duplicates + second.duplicates,
        first.lines + second.lines,
    )
