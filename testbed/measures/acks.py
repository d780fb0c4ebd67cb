"""The acknowledgements of each cell, with published and model values (paper 003, sections 5.4 and 5.6)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from reports import published_values
from reports.numbers.compared import ComparisonPanel, ComparisonSeries, Where, series
from reports.numbers.spread import Spread
from reports.tables.columns import PrintedColumn
from testbed.measures import Measure, Results
from testbed.measures.acknowledgements.cells import Acked, Acks, cells
from testbed.measures.acknowledgements.checks import checks
from testbed.summary import SummaryPage, number, page, seconds
from testbed.trials.trial_row import TrialRow

_REORDERING = {"at_once": "D", "ignored": "NR", "next_three": "3A", None: ""}


def summary(experiment: Acks, lines: Sequence[Acked], rows: Sequence[TrialRow]) -> SummaryPage:
    """Return the summary of the cells of `rows`."""
    completed = [line for line in lines if line.done]
    others = [line.more or "-" for line in completed]
    columns = [
        PrintedColumn("RTT\nms", [f"{line.rtt_ms:g}" for line in completed]),
        PrintedColumn("loss\n%", [f"{line.loss_percent:g}" for line in completed]),
        *([PrintedColumn("more\n", others, right=False)] if any(line.more for line in completed) else []),
        PrintedColumn("asked\nratio", [line.ratios for line in completed]),
        PrintedColumn("\ndelay", [number(line.ack_delay_ms, 0) for line in completed]),
        PrintedColumn("reor-\ndering", [_REORDERING[line.ack_reordering] for line in completed], right=False),
        PrintedColumn("transfer\ns", [seconds(line.transfer_ms) for line in completed]),
        PrintedColumn("publ.\ns", [seconds(line.published_transfer_ms) for line in completed]),
        PrintedColumn("packets\n", [number(line.packets, 0) for line in completed]),
        PrintedColumn("ACKs\n", [number(line.acks, 0) for line in completed]),
        PrintedColumn("\nmodel", [number(line.model_acks, 0) for line in completed]),
        PrintedColumn("timer\n%", [number(line.timer_percent, 1) for line in completed]),
        PrintedColumn("publ.\n%", [number(line.published_timer_percent, 0) for line in completed]),
        PrintedColumn("bundled\n%", [number(line.bundled_percent, 1) for line in completed]),
        PrintedColumn("ACK\nbytes", [number(line.ack_bytes, 0) for line in completed]),
        PrintedColumn("client\n%", [number(line.client_percent, 2) for line in completed]),
        PrintedColumn("publ.\n%", [number(line.published_client_percent, 2) for line in completed]),
        *_of_equations(completed),
        PrintedColumn("trials\ndone", [f"{line.done}/{line.trials}" for line in completed]),
    ]
    legend = (
        "Medians. Packets: ack-eliciting packets that the client received. ACKs: its packets with an ACK\n"
        "frame; model: equation 3 of the paper, or 4. Timer: share of ACKs that waited their maximum delay.\n"
        "Bundled: share of ACKs with other frames in their packet. Client: its IP bytes per 100 of the\n"
        "server's. Reordering: D, an immediate ACK; NR, none; 3A, one for each of the next three packets.\n"
    )
    if any(line.equations for line in completed):
        legend += (
            "Alpha: the share of a ratio's packets in an ACK by the timer. Gaps: events with a gap in the\n"
            "packet numbers; those within one RTT count once. By 1 to 5: ACKs and the client's bytes by the\n"
            "paper's equations with the measured alpha, and bytes with the paper's alpha.\n"
        )
    if published_values.are_shown():
        legend += "Published of Chromium: up to 20 % are bundled, of short connections up to 100 %.\n"
    missing = [line.cell for line in lines if not line.done]
    return page(experiment, columns, legend, checks(experiment, lines, rows), missing, len(lines))


def _of_equations(lines: Sequence[Acked]) -> list[PrintedColumn]:
    """Return the columns of the equations; empty if no line has captures."""
    if not any(line.equations for line in lines):
        return []

    def cells_of(name: str, digits: int) -> list[str]:
        return [number(getattr(line.equations, name, None), digits) for line in lines]

    return [
        PrintedColumn("alpha\n", cells_of("alpha", 2)),
        PrintedColumn("gaps\n", cells_of("gaps", 0)),
        PrintedColumn("by 1 to 5\nACKs", cells_of("acks", 0)),
        PrintedColumn("\n%", cells_of("client_percent", 2)),
        PrintedColumn("alpha 0.5\n%", cells_of("half_percent", 2)),
    ]


def panels(lines: Sequence[Acked]) -> list[ComparisonPanel]:
    """Return the figure: times, ACKs and shares over the requested ratio, and distributions by RTT."""
    plots = (
        ("Transfer", "Time [s]", "transfer_ms", "published_transfer_ms", 1e-3),
        ("ACKs", "ACKs [packets]", "acks", None, 1),
        ("ACKs by the timer", "Share [%]", "timer_percent", "published_timer_percent", 1),
        ("Bytes of the client", "Of the server's [%]", "client_percent", "published_client_percent", 1),
    )
    # Cells with two ratios have no place on the axis.
    completed = [
        line for line in lines if line.done and line.ack_ratio is not None and line.ack_ratio_later is None
    ]
    groups: dict[str, list[Acked]] = {}
    for line in completed:
        label = f"{line.rtt_ms:g} ms"
        if line.loss_percent:
            label += f", {line.loss_percent:g} %, {(line.ack_reordering or 'own').replace('_', ' ')}"
        if line.more:
            label += f", {line.more}"
        if line.ack_delay_ms != completed[0].ack_delay_ms:
            label += f", {line.ack_delay_ms or 0:g} late"
        groups.setdefault(label, []).append(line)
    figure = []
    for title, axis, name, published, unit in plots:
        curves: list[ComparisonSeries] = []
        for label, group in groups.items():
            curves += series(label, [_over_ratio(line, name, unit) for line in group])
            if published is not None:
                theirs = [_over_ratio(line, published, unit) for line in group]
                curves += series(label, theirs, published=True)
        figure.append(ComparisonPanel(title, axis, tuple(curves), "Requested packets for each ACK"))
    return [*(figure if completed else []), *_distributions([line for line in lines if line.done])]


def _distributions(lines: Sequence[Acked]) -> Iterator[ComparisonPanel]:
    """Yield two panels for each RTT: the transfers' times and the client's bytes as boxes (Figures 6, 4)."""
    for rtt_ms in dict.fromkeys(line.rtt_ms for line in lines):
        conditions: dict[str, list[Acked]] = {}
        for line in lines:
            if line.rtt_ms == rtt_ms:
                conditions.setdefault(_condition(line), []).append(line)
        times: list[ComparisonSeries] = []
        shares: list[ComparisonSeries] = []
        for label, group in conditions.items():
            times += _boxes(label, [(line, line.transfer_spread_ms) for line in group], 1e-3)
            shares += _boxes(label, [(line, line.client_spread_percent) for line in group], 1)
            modelled = [(line, line.equations.client_percent) for line in group if line.equations]
            shares += series(f"{label}, equations", [(_policy(line), value) for line, value in modelled])
            published = [(_policy(line), line.published_client_percent) for line in group]
            shares += series(label, published, published=True)
        yield ComparisonPanel(f"Transfers, RTT {rtt_ms:g} ms", "Time [s]", tuple(times))
        yield ComparisonPanel(f"Client, RTT {rtt_ms:g} ms", "Bytes, of the server's [%]", tuple(shares))


def _boxes(
    label: str, spreads: Sequence[tuple[Acked, Spread | None]], unit: float
) -> tuple[ComparisonSeries, ...]:
    """Return a series with the five values of each spread."""
    known = [(_policy(line), value * unit) for line, spread in spreads if spread for value in spread.values]
    return series(label, known)


def _condition(line: Acked) -> str:
    """Return the loss on a cell's path and the requested response to it."""
    words = [f"{line.loss_percent:g} % lost" if line.loss_percent else "measured", line.more]
    if line.loss_percent and line.ack_reordering:
        words.append(line.ack_reordering.replace("_", " "))
    return ", ".join(filter(None, words))


def _policy(line: Acked) -> str:
    """Return a cell's ratio and ACK delay, or its client if the server requests nothing."""
    if line.ack_ratio is None:
        return line.client
    delay = "" if line.ack_delay_ms is None else f", {line.ack_delay_ms:g} ms"
    return f"{line.client}, {line.ratios}{delay}"


def _over_ratio(line: Acked, name: str, unit: float) -> tuple[Where, float | None]:
    value = getattr(line, name)
    return float(line.ack_ratio or 0), None if value is None else value * unit


def results(experiment: Acks, folder: Path, rows: Sequence[TrialRow]) -> Results:
    """Return a line for each cell; the captures in `folder`, where kept, give the values of the equations."""
    lines = cells(experiment, rows, folder)
    return Results(lines, lambda: summary(experiment, lines, rows), lambda: panels(lines))


MEASURE = Measure(Acks, results)
