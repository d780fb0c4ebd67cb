"""The paper's observations about quiche without rollbacks, and about smaller buffers (paper 001)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from testbed.measures.sending.pacing_cells import Paced
from testbed.summary import Check, number

UNCHANGED = "quiche"
CHANGED = ("quiche-sf", "quiche-sf-paced")
"""The servers without rollbacks of the congestion window (SF)."""


def checks(lines: Sequence[Paced]) -> Iterator[Check]:
    """Yield whether the observations hold for the completed cells."""
    yield from _without_rollbacks(lines)
    yield from _by_buffers(lines)


def _without_rollbacks(lines: Sequence[Paced]) -> Iterator[Check]:
    """Yield whether the change saves drops (section 4.2), and fq saves more of them (Tables 1 and 2)."""
    for line in lines:
        if line.server not in CHANGED or line.dropped is None:
            continue
        about = f"{line.server}, {line.congestion_control}, qdisc {line.qdisc}, GSO {line.buffers}"
        for other in lines:
            if other.dropped is None or _conditions(other) != _conditions(line):
                continue
            drops = f"{number(line.dropped, 0)} and {number(other.dropped, 0)}"
            if (other.server, other.qdisc) == (UNCHANGED, line.qdisc):
                expected = f"fewer packets are dropped than of {UNCHANGED}"
                yield Check(about, expected, drops, line.dropped < other.dropped)
            if (other.server, line.qdisc, other.qdisc) == (line.server, "fq", "none"):
                expected = "fq drops fewer than no qdisc"
                yield Check(about, expected, drops, line.dropped < other.dropped)


def _by_buffers(lines: Sequence[Paced]) -> Iterator[Check]:
    """Yield whether larger buffers send more bursts (section 4.3): the share of gaps inside of trains."""
    sized = [
        (line, line.gso_segments, line.below_percent)
        for line in lines
        if line.gso_segments is not None and line.below_percent is not None and not line.gso_paced
    ]
    servers = dict.fromkeys((line.server, line.congestion_control, line.qdisc) for line, *_ in sized)
    for server, control, qdisc in servers:
        group = sorted(
            (segments, share)
            for line, segments, share in sized
            if (line.server, line.congestion_control, line.qdisc) == (server, control, qdisc)
        )
        if len(group) > 1:
            yield Check(
                f"{server}, {control}, qdisc {qdisc}",
                "the more datagrams fill a buffer, the more gaps are at most 0.1 ms",
                ", ".join(f"{segments}: {number(share, 1)} %" for segments, share in group),
                all(share < larger for (_, share), (_, larger) in itertools.pairwise(group)),
            )


def _conditions(line: Paced) -> tuple[str | None, str]:
    """Return the conditions that compared cells share."""
    return line.congestion_control, line.buffers
