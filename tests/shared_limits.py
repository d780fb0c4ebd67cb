"""Whether two engines that share limits keep them together, and take turns."""

from __future__ import annotations

from itertools import pairwise
from statistics import median

MS = 1_000_000
# Of both engines: together six seconds at 20 a second, several turns even if one engine starts seconds later.
EACH = 60


def check_turns(sent: list[tuple[int, int]], each: int) -> None:
    """Check what left, as (time in ns, engine 0 or 1), `each` of both, of engines that share 20 a second.

    Limit and slack (300 ms) hold for the times of the engines' decisions; stamps are somewhat later, which
    changes single gaps but not their median.
    """
    sent = sorted(sent)
    assert [index for _, index in sent].count(0) == each == [index for _, index in sent].count(1)
    gaps: dict[bool, list[int]] = {True: [], False: []}
    for (before, who), (after, other) in pairwise(sent):
        gaps[who == other].append(after - before)
    assert median(gaps[True]) > 45 * MS
    assert len(gaps[False]) >= 3 and median(gaps[False]) > 250 * MS
    assert min(gaps[False]) > 0
