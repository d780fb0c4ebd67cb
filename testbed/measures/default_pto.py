"""A client's default probe timeout, before any RTT sample, and the datagrams of its second flight.

Paper 000, Table 4. Both are read from the captures of an experiment, packet by packet.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from reports.tables.columns import Column
from testbed.experiment.experiment import Experiment
from testbed.measures.page import UNAVAILABLE, Check, Page, number, page
from testbed.trials.captures import captured_packets, second_flight
from testbed.trials.captures.packets import Packet, crypto_bytes
from testbed.trials.cell_rows import done
from testbed.trials.trial_row import Row


@dataclass(frozen=True)
class Client:
    """A client. `default_pto_ms` is the median of trials in which it probed before any answer; null if none.

    `second_flight`: numbers of datagrams, from 1, as `2-4`; null if it probed first in all trials.
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


def clients(experiment: Experiment, folder: Path, rows: Sequence[Row]) -> list[Client]:
    """Return a line for each client of `rows`, sorted; their captures are in `folder`.

    InputError if one was not kept.
    """
    return [_client(experiment, folder, name, rows) for name in sorted({row["client"] for row in rows})]


def summary(experiment: Experiment, found: Sequence[Client]) -> Page:
    """Return the summary of clients."""
    here = [one for one in found if one.trials]
    columns = [
        Column("client\n", [one.client for one in here], right=False),
        Column("version\n", [one.version or "-" for one in here], right=False),
        Column("default\nPTO", [number(one.default_pto_ms, 1) for one in here]),
        Column("second\nflight", [one.second_flight or "-" for one in here]),
        Column("published\nPTO", [number(one.published_default_pto_ms, 1) for one in here]),
        Column("\nflight", [one.published_second_flight or "-" for one in here]),
        Column("trials\n", [str(one.trials) for one in here]),
    ]
    legend = (
        "PTO: ms from the first packet to the first that brings nothing new, before any answer.\n"
        "Flight: numbers of the client's datagrams.\n"
    )
    checks = [
        Check(one.client, one.expected or "", f"{number(one.default_pto_ms, 1)} ms", one.verdict == "met")
        for one in here
        if one.verdict
    ]
    missing = [one.client for one in found if not one.trials]
    return page(experiment, columns, legend, checks, missing, len(found), without=UNAVAILABLE)


def default_us(packets: Iterable[Packet]) -> int | None:
    """Return when a client first sent an Initial without new handshake bytes, in us from the first packet.

    None if the server answered earlier. `packets`: rows of quic_packet of one connection, in capture order.
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


def _client(experiment: Experiment, folder: Path, name: str, rows: Sequence[Row]) -> Client:
    ended = [row for row in done(rows) if row["client"] == name]
    connections = captured_packets.connections(folder, ended)
    probes = [default_us(one) for one in connections]
    flights = [
        second_flight.indices(one) for one, probe in zip(connections, probes, strict=True) if not probe
    ]
    found = [probe for probe in probes if probe is not None]
    default_ms = median(found) / 1000 if found else None
    theirs = next((one for one in experiment.timer if one.client == name), None)
    accepted = next((one for one in experiment.accept if name in one.clients), None)
    return Client(
        client=name,
        version=ended[0]["client_version"] if ended else None,
        trials=len(ended),
        default_pto_ms=default_ms,
        second_flight=_flight(flights),
        published_default_pto_ms=theirs.default_pto_ms if theirs else None,
        published_second_flight=theirs.second_flight if theirs else None,
        verdict=accepted.verdict(default_ms) if accepted else None,
        expected=accepted.why if accepted else None,
    )


def _flight(flights: Sequence[tuple[int, ...]]) -> str | None:
    shown = sorted({f"{one[0]}-{one[-1]}" if len(one) > 1 else f"{one[0]}" for one in flights if one})
    return ", ".join(shown) or None
