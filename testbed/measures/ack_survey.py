"""How each client acknowledges by default, and whether it follows ACK_FREQUENCY requests."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from pydantic import Field

from reports.numbers.compared import ComparisonPanel, series
from reports.tables.columns import PrintedColumn
from testbed.experiment.cell import Cell
from testbed.experiment.experiment import Experiment
from testbed.experiment.published import OfPaper
from testbed.measures import Measure, Results
from testbed.summary import Check, SummaryPage, count, number, page
from testbed.trials.cell_rows import by_cell, column, done, median_of, percent, quotient
from testbed.trials.trial_row import TrialRow

FOLLOWS_WITHIN = 0.2
PUBLISHED_WITHIN = 0.1


class PublishedAcks(OfPaper):
    """A client's published acknowledgements."""

    client: str = Field(description="The client.")
    ratio: str = Field(description="Packets for each ACK, as `2` or `2-8`.")
    parses: bool = Field(description="Whether it parses ACK_FREQUENCY.")
    ack_bytes: int | None = Field(default=None, description="IP bytes of an ACK.")


class Counted(OfPaper):
    """A client's published counters over all its packets, two bounds each."""

    client: str = Field(description="The client.")
    packet_bytes: tuple[float, float] = Field(description="Mean IP bytes of a packet.")
    packets_each: tuple[float, float] = Field(description="Packets received for each packet sent.")


class AckSurvey(Experiment):
    """How clients acknowledge by default, and with ACK_FREQUENCY requests (paper 003, Table 2)."""

    survey: tuple[PublishedAcks, ...] = Field(default=(), description="Published acknowledgements.")
    counted: tuple[Counted, ...] = Field(default=(), description="Published counters.")


@dataclass(frozen=True)
class ClientAcks:
    """A client. Numbers are medians over completed trials without a request; null without any.

    `takes_requests`: its transport parameters contain min_ack_delay. The server then requested `asked_ratio`,
    and the client's ratio was `asked_eliciting_per_ack`. `follows`: it takes requests, and its ratio was
    within a fifth of the requested one. `packet_bytes`: mean IP bytes of all its packets. `packets_each`:
    datagrams received per packet sent, as a device's counters would show.
    """

    client: str
    version: str | None
    server: str
    trials: int
    done: int
    eliciting_per_ack: float | None
    first100: float | None
    after100: float | None
    ack_bytes: float | None
    bundled_percent: float | None
    packet_bytes: float | None
    packets_each: float | None
    min_ack_delay_ms: float | None
    takes_requests: bool | None
    asked_ratio: int | None
    asked_eliciting_per_ack: float | None
    follows: bool | None
    published_ratio: str | None
    published_ack_bytes: int | None
    published_parses: bool | None
    published_packet_bytes: tuple[float, float] | None
    published_packets_each: tuple[float, float] | None

    def as_dict(self) -> dict[str, Any]:
        """Return the columns as a dictionary."""
        return asdict(self)


def clients(experiment: AckSurvey, rows: Sequence[TrialRow]) -> list[ClientAcks]:
    """Return a line for each pair of stacks in `rows`. InputError as in `by_cell`."""
    pairs: dict[tuple[str, str], list[tuple[Cell, list[TrialRow]]]] = {}
    for cell, cell_rows in by_cell(experiment, rows):
        pairs.setdefault((cell.client, cell.server), []).append((cell, cell_rows))
    return [_client(experiment, *stacks, cell_rows) for stacks, cell_rows in sorted(pairs.items())]


def _client(
    experiment: AckSurvey, name: str, server: str, cells: Sequence[tuple[Cell, list[TrialRow]]]
) -> ClientAcks:
    plain = [row for cell, rows in cells if cell.ack_ratio is None for row in rows]
    ended = done(plain)
    requested_ratio = next((cell.ack_ratio for cell, _ in cells if cell.ack_ratio is not None), None)
    requested = done([row for cell, rows in cells if cell.ack_ratio is not None for row in rows])
    published = next((entry for entry in experiment.survey if entry.client == name), None)
    counted = next((entry for entry in experiment.counted if entry.client == name), None)
    delays = [row["min_ack_delay_us_client"] for row in ended]
    takes = any(delay is not None for delay in delays) if delays else None
    followed = median_of(requested, column("eliciting_per_ack_after100"))
    return ClientAcks(
        client=name,
        version=ended[0]["client_version"] if ended else None,
        server=server,
        trials=len(plain),
        done=len(ended),
        eliciting_per_ack=median_of(ended, column("eliciting_per_ack")),
        first100=median_of(ended, column("eliciting_per_ack_first100")),
        after100=median_of(ended, column("eliciting_per_ack_after100")),
        ack_bytes=median_of(ended, column("ack_only_ip_bytes_p50")),
        bundled_percent=median_of(ended, percent("bundled_packets", "ack_packets")),
        packet_bytes=median_of(ended, quotient("ip_bytes_client", "datagrams_client")),
        packets_each=median_of(ended, quotient("datagrams_server", "datagrams_client")),
        min_ack_delay_ms=median([delay_us / 1000 for delay_us in delays if delay_us is not None])
        if takes
        else None,
        takes_requests=takes,
        asked_ratio=requested_ratio,
        asked_eliciting_per_ack=followed,
        follows=None
        if requested_ratio is None or followed is None
        else bool(takes) and abs(followed / requested_ratio - 1) <= FOLLOWS_WITHIN,
        published_ratio=published.ratio if published else None,
        published_ack_bytes=published.ack_bytes if published else None,
        published_parses=published.parses if published else None,
        published_packet_bytes=counted.packet_bytes if counted else None,
        published_packets_each=counted.packets_each if counted else None,
    )


def checks(lines: Sequence[ClientAcks]) -> list[Check]:
    """Return whether clients still behave as in the paper's table."""
    verdicts = []
    for line in lines:
        ratios = re.fullmatch(r"(\d+)(?:-(\d+))?", line.published_ratio or "")
        if ratios is not None and line.eliciting_per_ack is not None:
            low, high = float(ratios[1]), float(ratios[2] or ratios[1])
            verdicts.append(
                Check(
                    line.client,
                    f"a ratio of {line.published_ratio}, within a tenth",
                    f"{line.eliciting_per_ack:.2f}",
                    low * (1 - PUBLISHED_WITHIN) <= line.eliciting_per_ack <= high * (1 + PUBLISHED_WITHIN),
                )
            )
        two = re.fullmatch(r"(\d+), then (\d+)", line.published_ratio or "")
        if two is not None and line.first100 is not None and line.after100 is not None:
            # ACKs by the timer reduce both means.
            pairs = ((line.first100, float(two[1])), (line.after100, float(two[2])))
            verdicts.append(
                Check(
                    line.client,
                    f"a ratio of {line.published_ratio} after 100 packets, within a fifth",
                    f"{line.first100:.2f}, then {line.after100:.2f}",
                    all(abs(found / published - 1) <= FOLLOWS_WITHIN for found, published in pairs),
                )
            )
        if line.published_parses is not None and line.takes_requests is not None:
            takes = {True: "takes ACK_FREQUENCY", False: "takes no ACK_FREQUENCY"}
            verdicts.append(
                Check(
                    line.client,
                    f"it {takes[line.published_parses]}",
                    takes[line.takes_requests],
                    line.takes_requests == line.published_parses,
                )
            )
    return verdicts


def summary(experiment: AckSurvey, lines: Sequence[ClientAcks]) -> SummaryPage:
    """Return the summary of clients."""
    completed = [line for line in lines if line.done]
    columns = [
        PrintedColumn("client\n", [line.client for line in completed], right=False),
        PrintedColumn("version\n", [line.version or "-" for line in completed], right=False),
        PrintedColumn("packets\nper ACK", [number(line.eliciting_per_ack, 2) for line in completed]),
        PrintedColumn("first\n100", [number(line.first100, 2) for line in completed]),
        PrintedColumn("after\n100", [number(line.after100, 2) for line in completed]),
        PrintedColumn("published\nratio", [line.published_ratio or "-" for line in completed], right=False),
        PrintedColumn("ACK\nbytes", [number(line.ack_bytes, 0) for line in completed]),
        PrintedColumn("publ.\nbytes", [count(line.published_ack_bytes) for line in completed]),
        PrintedColumn("bundled\n%", [number(line.bundled_percent, 1) for line in completed]),
        PrintedColumn("mean\nbytes", [number(line.packet_bytes, 0) for line in completed]),
        PrintedColumn("publ.\n", [_range(line.published_packet_bytes, 0) for line in completed]),
        PrintedColumn("packets\neach", [number(line.packets_each, 2) for line in completed]),
        PrintedColumn("publ.\n", [_range(line.published_packets_each, 2) for line in completed]),
        PrintedColumn(
            "takes ACK_\nFREQUENCY", [_yes_or_no(line.takes_requests) for line in completed], right=False
        ),
        PrintedColumn(
            "publ.\nparses", [_yes_or_no(line.published_parses) for line in completed], right=False
        ),
        PrintedColumn("asked\nratio", [count(line.asked_ratio) for line in completed]),
        PrintedColumn("\nfound", [number(line.asked_eliciting_per_ack, 2) for line in completed]),
        PrintedColumn("\nfollows", [_yes_or_no(line.follows) for line in completed], right=False),
    ]
    legend = (
        "Medians. Packets per ACK: ack-eliciting packets that it acknowledges for the first time. Takes\n"
        "ACK_FREQUENCY: its transport parameters have min_ack_delay. Found: packets per ACK after 100.\n"
        "Mean bytes: of all packets of the client, and packets received for each of them; published from\n"
        "counters of transfers of 100 MiB with loss (QUIC Steps), here from 500 kB.\n"
    )
    missing = [line.client for line in lines if not line.done]
    client_names = {line.client for line in completed}
    further = [
        f"Published of {entry.client}, without a completed trial here: {_range(entry.packet_bytes, 0)} "
        f"bytes, {_range(entry.packets_each, 2)} packets for each."
        for entry in experiment.counted
        if entry.client not in client_names
    ]
    return page(experiment, columns, legend, checks(completed), missing, len(lines), further=further)


def _range(bounds: tuple[float, float] | None, digits: int) -> str:
    if bounds is None:
        return "-"
    low, high = (number(bound, digits) for bound in bounds)
    return low if low == high else f"{low}-{high}"


def _yes_or_no(value: bool | None) -> str:
    return "-" if value is None else ("no", "yes")[value]


def panels(lines: Sequence[ClientAcks]) -> list[ComparisonPanel]:
    """Return the figure: packets for each ACK by client."""
    dots = series("by itself", [(line.client, line.eliciting_per_ack) for line in lines])
    dots += series("after 100 packets", [(line.client, line.after100) for line in lines])
    dots += series("if asked for 10", [(line.client, line.asked_eliciting_per_ack) for line in lines])
    return [ComparisonPanel("By client", "Packets for each ACK", dots)] if lines else []


def results(experiment: AckSurvey, _folder: Path, rows: Sequence[TrialRow]) -> Results:
    """Return a line for each pair of stacks."""
    lines = clients(experiment, rows)
    return Results(lines, lambda: summary(experiment, lines), lambda: panels(lines))


MEASURE = Measure(AckSurvey, results)
