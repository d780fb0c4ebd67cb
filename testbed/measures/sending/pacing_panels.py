"""The figure of pacing: values by cell, and distributions of gaps and trains (paper 001, Figures 2 to 6)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from reports.numbers.compared import ComparisonPanel, ComparisonSeries, Where, series
from testbed.measures.sending.pacing_cells import Paced
from testbed.measures.sending.quiche_checks import CHANGED


def panels(lines: Sequence[Paced]) -> list[ComparisonPanel]:
    """Return the panels: ours and the published values by cell, then the distributions of groups of cells."""
    plots: tuple[tuple[str, str, str], ...] = (
        ("alone_percent", "Packets alone", "Share [%]"),
        ("below_percent", "Gaps of 0.1 ms or less", "Share [%]"),
        ("goodput_mbit", "Goodput", "Rate [Mbit/s]"),
        ("dropped", "Dropped by the queue", "Packets"),
    )
    figure = []
    for name, title, axis in plots:
        dots = series("server", [(_cell(line), getattr(line, name)) for line in lines])
        published_points: list[tuple[Where, float | None]] = [
            (_cell(line), getattr(line.published, name) if line.published else None) for line in lines
        ]
        figure.append(ComparisonPanel(title, axis, dots + series("server", published_points, published=True)))
    return [*figure, *_distributions(lines)] if lines else []


def _distributions(lines: Sequence[Paced]) -> Iterator[ComparisonPanel]:
    """Yield the distributions of each group: ours as curves, the published shares as points."""
    for title, label, group in _groups([line for line in lines if line.distribution is not None]):
        gaps: list[ComparisonSeries] = []
        trains: list[ComparisonSeries] = []
        for line in group:
            name, published = label(line), line.published
            assert line.distribution is not None
            gaps += series(name, line.distribution.gaps_drawn())
            trains += series(name, line.distribution.trains_drawn())
            if published is not None:
                gaps += series(name, [(0.1, published.below_percent)], published=True)
                points = [(1.0, published.alone_percent), (5.0, published.le5_percent)]
                trains += series(name, points, published=True)
        yield ComparisonPanel(title, "Share of the gaps [%]", tuple(gaps), "Gap up to [ms]")
        yield ComparisonPanel(title, "Share of the packets [%]", tuple(trains), "Train up to [packets]")


def _groups(lines: Sequence[Paced]) -> Iterator[tuple[str, Callable[[Paced], str], list[Paced]]]:
    """Yield groups of cells to compare: a title, a function that labels a cell, and the cells.

    The groups compare servers with CUBIC (Figures 2 and 3), controls and uses of GSO of a server with a qdisc
    (Figures 4 and 6), and qdiscs (Figure 5). Each cell is in a group.
    """
    yield from _of_servers(lines)
    by_qdisc: dict[tuple[str, str], list[Paced]] = {}
    by_sending: dict[str, list[Paced]] = {}
    for line in lines:
        by_qdisc.setdefault((line.server, line.qdisc), []).append(line)
        by_sending.setdefault(_title(line), []).append(line)
    for (server, qdisc), group in by_qdisc.items():
        if len(group) > 1 or len(by_sending[_title(group[0])]) == 1:
            yield f"{server}, {'no qdisc' if qdisc == 'none' else qdisc}", _sending, group
    for title, group in by_sending.items():
        if len(group) > 1:
            yield title, lambda line: line.qdisc, group


def _of_servers(lines: Sequence[Paced]) -> Iterator[tuple[str, Callable[[Paced], str], list[Paced]]]:
    """Yield the group of servers with CUBIC and no qdisc. A server's published cell represents it."""
    group: dict[str, Paced] = {}
    for line in lines:
        if line.server in CHANGED or (line.congestion_control, line.qdisc) != ("cubic", "none"):
            continue
        if line.server not in group or line.published is not None:
            group[line.server] = line
    if len(group) > 1:
        yield "CUBIC, no qdisc", lambda line: line.server, list(group.values())


def _title(line: Paced) -> str:
    return f"{line.server} {_sending(line)}"


def _sending(line: Paced) -> str:
    """Return the congestion control and use of GSO of a cell's server."""
    return f"{line.congestion_control or 'own control'} {_buffers(line)}".strip()


def _cell(line: Paced) -> str:
    qdisc = "" if line.qdisc == "none" else line.qdisc
    parts = (line.server, line.congestion_control or "", qdisc, _buffers(line))
    return " ".join(part for part in parts if part)


def _buffers(line: Paced) -> str:
    """Return the words for the use of GSO by a cell's server; none without GSO."""
    if not line.gso:
        return ""
    segments = "" if line.gso_segments is None else f" {line.gso_segments}"
    return ("paced GSO" if line.gso_paced else "GSO") + segments
