"""Two ratios in one connection and a long ACK delay, compared with a single ratio (paper 003, section 6).

The paper recommends a ratio of 2 for the first 100 packets, then 10, and a longest delay of RTT/4. This
policy should send fewer ACKs than a ratio of 2 and make no transfer longer.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from reports.numbers.compared import ComparisonPanel, ComparisonSeries, series
from reports.tables.columns import PrintedColumn
from testbed.measures import Measure, Results
from testbed.measures.acknowledgements.policies import AckPolicies, Policy, checks, policies
from testbed.summary import SummaryPage, number, page, seconds
from testbed.trials.trial_row import TrialRow


def summary(experiment: AckPolicies, lines: Sequence[Policy], rows: Sequence[TrialRow]) -> SummaryPage:
    """Return the summary of the cells of `rows`."""
    completed = [line for line in lines if line.done]
    columns = [
        PrintedColumn("RTT\nms", [f"{line.rtt_ms:g}" for line in completed]),
        PrintedColumn("loss\n%", [f"{line.loss_percent:g}" for line in completed]),
        PrintedColumn("asked\nratio", [line.ratios for line in completed], right=False),
        PrintedColumn("\ndelay", [number(line.ack_delay_ms, 1) for line in completed]),
        PrintedColumn("transfer\ns", [seconds(line.transfer_ms) for line in completed]),
        PrintedColumn("later than\nratio 2, ms", [number(line.later_ms, 0) for line in completed]),
        PrintedColumn("sign\ntest p", [number(line.p, 3) for line in completed]),
        PrintedColumn("packets\n", [number(line.packets, 0) for line in completed]),
        PrintedColumn("ACKs\n", [number(line.acks, 0) for line in completed]),
        PrintedColumn("\nmodel", [number(line.model_acks, 0) for line in completed]),
        PrintedColumn("fewer,\ntimes", [number(line.fewer, 2) for line in completed]),
        PrintedColumn("per ACK,\nto 100", [number(line.first100, 2) for line in completed]),
        PrintedColumn("per ACK,\nlater", [number(line.after100, 2) for line in completed]),
        PrintedColumn("timer\n%", [number(line.timer_percent, 1) for line in completed]),
        PrintedColumn("client\n%", [number(line.client_percent, 2) for line in completed]),
        PrintedColumn("trials\ndone", [f"{line.done}/{line.trials}" for line in completed]),
    ]
    legend = (
        "Medians. Later than ratio 2: median difference of repetitions that lost the same datagrams.\n"
        "Model: equation 3 of the paper, or 4. Fewer: the ACKs with ratio 2, divided by these.\n"
        "Per ACK: ack-eliciting packets, up to the 100th and later. Timer: share of ACKs that waited their\n"
        "maximum delay. Client: its IP bytes per 100 of the server's.\n"
    )
    missing = [line.cell for line in lines if not line.done]
    return page(experiment, columns, legend, checks(experiment, rows), missing, len(lines))


def panels(lines: Sequence[Policy]) -> list[ComparisonPanel]:
    """Return the figure: differences of the transfer times, and ACKs, over the RTT, without and with loss."""
    figure = []
    for loss in dict.fromkeys(line.loss_percent for line in lines):
        groups: dict[str, list[Policy]] = {}
        for line in lines:
            if line.loss_percent == loss and line.done:
                groups.setdefault(_label(line), []).append(line)
        for title, axis, name in (
            ("Later than with ratio 2", "Time [ms]", "later_ms"),
            ("ACKs", "ACKs [packets]", "acks"),
        ):
            curves: tuple[ComparisonSeries, ...] = ()
            for label, group in groups.items():
                curves += series(label, [(line.rtt_ms, getattr(line, name)) for line in group])
            figure.append(ComparisonPanel(f"{title}, loss {loss:g} %", axis, curves, "RTT [ms]"))
    return figure


def _label(line: Policy) -> str:
    """Return the policy, with a delay of a quarter of the RTT worded as such."""
    if line.ack_delay_ms == line.rtt_ms / 4:
        return f"ratio {line.ratios}, RTT/4"
    return line.words


def results(experiment: AckPolicies, _folder: Path, rows: Sequence[TrialRow]) -> Results:
    """Return a line for each cell."""
    lines = policies(experiment, rows)
    return Results(lines, lambda: summary(experiment, lines, rows), lambda: panels(lines))


MEASURE = Measure(AckPolicies, results)
