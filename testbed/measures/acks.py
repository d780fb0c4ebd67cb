"""The acknowledgements of each cell, with published and model values (paper 003, sections 5.4 and 5.6)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from reports import published_values
from reports.numbers.compared import ComparisonPanel, ComparisonSeries, Where, series
from reports.tables.columns import PrintedColumn
from testbed.measures import Measure, Results
from testbed.measures.acknowledgements.cells import Acked, Acks, cells
from testbed.measures.acknowledgements.checks import checks
from testbed.summary import SummaryPage, number, page, seconds
from testbed.trials.trial_row import Row

_REORDERING = {"at_once": "D", "ignored": "NR", "next_three": "3A", None: ""}


def summary(experiment: Acks, lines: Sequence[Acked], rows: Sequence[Row]) -> SummaryPage:
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
        PrintedColumn("trials\ndone", [f"{line.done}/{line.trials}" for line in completed]),
    ]
    legend = (
        "Medians. Packets: ack-eliciting packets that the client received. ACKs: its packets with an ACK\n"
        "frame; model: equation 3 of the paper, or 4. Timer: share of ACKs that waited their maximum delay.\n"
        "Bundled: share of ACKs with other frames in their packet. Client: its IP bytes per 100 of the\n"
        "server's. Reordering: D, an immediate ACK; NR, none; 3A, one for each of the next three packets.\n"
    )
    if published_values.are_shown():
        legend += "Published of Chromium: up to 20 % are bundled, of short connections up to 100 %.\n"
    missing = [line.cell for line in lines if not line.done]
    return page(experiment, columns, legend, checks(experiment, lines, rows), missing, len(lines))


def panels(lines: Sequence[Acked]) -> list[ComparisonPanel]:
    """Return the figure: times, ACKs and shares over the requested ratio."""
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
            label += f", {(line.ack_reordering or 'own').replace('_', ' ')}"
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
    return figure if completed else []


def _over_ratio(line: Acked, name: str, unit: float) -> tuple[Where, float | None]:
    value = getattr(line, name)
    return float(line.ack_ratio or 0), None if value is None else value * unit


def results(experiment: Acks, _folder: Path, rows: Sequence[Row]) -> Results:
    """Return a line for each cell."""
    lines = cells(experiment, rows)
    return Results(lines, lambda: summary(experiment, lines, rows), lambda: panels(lines))


MEASURE = Measure(Acks, results)
