"""A client's default probe timeout, before any RTT sample, and the datagrams in the second flight.

Paper 000, Table 4. Both values come from the packets in an experiment's captures.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from pydantic import Field

from reports.numbers.compared import ComparisonPanel, series
from reports.tables.columns import PrintedColumn
from testbed.experiment.expected import Accept
from testbed.experiment.experiment import Experiment
from testbed.experiment.published import OfPaper
from testbed.measures import Measure, Results
from testbed.summary import UNAVAILABLE, Check, SummaryPage, number, page
from testbed.trials.captures import captured_packets, second_flight
from testbed.trials.captures.packets import Packet, crypto_bytes
from testbed.trials.cell_rows import done
from testbed.trials.trial_row import TrialRow


class Timer(OfPaper):
    """A client's published default PTO and second flight."""

    client: str = Field(description="The client.")
    default_pto_ms: float = Field(description="Its default PTO.")
    second_flight: str = Field(description="Numbers of the datagrams in its second flight, as `2-4`.")


class DefaultPto(Experiment):
    """The client's PTO before any RTT sample, and its second flight (paper 000, Table 4)."""

    timer: tuple[Timer, ...] = Field(default=(), description="Published values.")
    accept: tuple[Accept, ...] = Field(default=(), description="Expected values of the default PTO.")


@dataclass(frozen=True)
class ClientPto:
    """A client. `default_pto_ms`: median over trials in which it probed before any answer; null without any.

    `second_flight`: datagram numbers, from 1, as `2-4`; null if the client probed first in all trials.
    """

    client: str
    version: str | None
    trials: int
    default_pto_ms: float | None
    second_flight: str | None
    published_default_pto_ms: float | None
    published_second_flight: str | None
    verdict: str | None
    expected: str | None

    def as_dict(self) -> dict[str, Any]:
        """Return the columns as a dictionary."""
        return asdict(self)


def clients(experiment: DefaultPto, folder: Path, rows: Sequence[TrialRow]) -> list[ClientPto]:
    """Return a line for each client of `rows`, sorted; the captures are in `folder`.

    InputError if a capture was not kept.
    """
    return [_client(experiment, folder, name, rows) for name in sorted({row["client"] for row in rows})]


def summary(experiment: DefaultPto, lines: Sequence[ClientPto]) -> SummaryPage:
    """Return the summary of clients."""
    completed = [line for line in lines if line.trials]
    columns = [
        PrintedColumn("client\n", [line.client for line in completed], right=False),
        PrintedColumn("version\n", [line.version or "-" for line in completed], right=False),
        PrintedColumn("default\nPTO", [number(line.default_pto_ms, 1) for line in completed]),
        PrintedColumn("second\nflight", [line.second_flight or "-" for line in completed]),
        PrintedColumn("published\nPTO", [number(line.published_default_pto_ms, 1) for line in completed]),
        PrintedColumn("\nflight", [line.published_second_flight or "-" for line in completed]),
        PrintedColumn("trials\n", [str(line.trials) for line in completed]),
    ]
    legend = (
        "PTO: ms from the first packet to the first packet without new data, before any answer.\n"
        "Flight: numbers of the client's datagrams.\n"
    )
    checks = [
        Check(line.client, line.expected or "", f"{number(line.default_pto_ms, 1)} ms", line.verdict == "met")
        for line in completed
        if line.verdict
    ]
    missing = [line.client for line in lines if not line.trials]
    return page(experiment, columns, legend, checks, missing, len(lines), without=UNAVAILABLE)


def default_us(packets: Iterable[Packet]) -> int | None:
    """Return when a client first sent an Initial without new handshake bytes, in us from the first packet.

    `None` if the server answered earlier. `packets`: a connection's rows of quic_packet, in capture order.
    """
    known: set[int] = set()
    for packet in packets:
        if not packet["from_client"]:
            return None
        if packet["type"] != "initial":
            continue
        brought = set(crypto_bytes(packet["frames"]))
        if known and not brought - known:
            return int(packet["since_start_us"])
        known |= brought
    return None


def _client(experiment: DefaultPto, folder: Path, name: str, rows: Sequence[TrialRow]) -> ClientPto:
    ended = [row for row in done(rows) if row["client"] == name]
    connections = captured_packets.connections(folder, ended)
    probes = [default_us(packets) for packets in connections]
    flights = [
        second_flight.indices(packets)
        for packets, probe in zip(connections, probes, strict=True)
        if not probe
    ]
    probed_us = [probe for probe in probes if probe is not None]
    default_ms = median(probed_us) / 1000 if probed_us else None
    published = next((timer for timer in experiment.timer if timer.client == name), None)
    accepted = next((accept for accept in experiment.accept if name in accept.clients), None)
    return ClientPto(
        client=name,
        version=ended[0]["client_version"] if ended else None,
        trials=len(ended),
        default_pto_ms=default_ms,
        second_flight=_flight(flights),
        published_default_pto_ms=published.default_pto_ms if published else None,
        published_second_flight=published.second_flight if published else None,
        verdict=accepted.verdict(default_ms) if accepted else None,
        expected=accepted.why if accepted else None,
    )


def _flight(flights: Sequence[tuple[int, ...]]) -> str | None:
    texts = sorted(
        {f"{flight[0]}-{flight[-1]}" if len(flight) > 1 else f"{flight[0]}" for flight in flights if flight}
    )
    return ", ".join(texts) or None


def panels(lines: Sequence[ClientPto]) -> list[ComparisonPanel]:
    """Return the figure: our default PTO and the published one by client."""
    dots = series("default PTO", [(line.client, line.default_pto_ms) for line in lines])
    dots += series(
        "default PTO", [(line.client, line.published_default_pto_ms) for line in lines], published=True
    )
    return [ComparisonPanel("Before any sample", "Default PTO [ms]", dots)] if lines else []


def results(experiment: DefaultPto, folder: Path, rows: Sequence[TrialRow]) -> Results:
    """Return a line for each client, read from the captures in `folder`."""
    lines = clients(experiment, folder, rows)
    return Results(lines, lambda: summary(experiment, lines), lambda: panels(lines))


MEASURE = Measure(DefaultPto, results)
