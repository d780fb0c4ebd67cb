"""How each client acknowledges by default, and whether it follows ACK_FREQUENCY requests."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from testbed.experiment.cell import Cell
from testbed.experiment.experiment import Experiment
from testbed.measures.page import Check
from testbed.trials.cell_rows import by_cell, column, done, median_of, percent, quotient
from testbed.trials.trial_row import Row

FOLLOWS_WITHIN = 0.2
PUBLISHED_WITHIN = 0.1


@dataclass(frozen=True)
class Client:
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


def clients(experiment: Experiment, rows: Sequence[Row]) -> list[Client]:
    """Return a line for each pair of stacks that `rows` are of. InputError as `by_cell`."""
    pairs: dict[tuple[str, str], list[tuple[Cell, list[Row]]]] = {}
    for cell, own in by_cell(experiment, rows):
        pairs.setdefault((cell.client, cell.server), []).append((cell, own))
    return [_client(experiment, *stacks, own) for stacks, own in sorted(pairs.items())]


def _client(experiment: Experiment, name: str, server: str, own: Sequence[tuple[Cell, list[Row]]]) -> Client:
    plain = [row for cell, rows in own if cell.ack_ratio is None for row in rows]
    ended = done(plain)
    asked = next((cell.ack_ratio for cell, _ in own if cell.ack_ratio is not None), None)
    requested = done([row for cell, rows in own if cell.ack_ratio is not None for row in rows])
    theirs = next((one for one in experiment.survey if one.client == name), None)
    counted = next((one for one in experiment.counted if one.client == name), None)
    delays = [row["min_ack_delay_us_client"] for row in ended]
    takes = any(one is not None for one in delays) if delays else None
    followed = median_of(requested, column("eliciting_per_ack_after100"))
    return Client(
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
        min_ack_delay_ms=median([one / 1000 for one in delays if one is not None]) if takes else None,
        takes_requests=takes,
        asked_ratio=asked,
        asked_eliciting_per_ack=followed,
        follows=None
        if asked is None or followed is None
        else bool(takes) and abs(followed / asked - 1) <= FOLLOWS_WITHIN,
        published_ratio=theirs.ratio if theirs else None,
        published_ack_bytes=theirs.ack_bytes if theirs else None,
        published_parses=theirs.parses if theirs else None,
        published_packet_bytes=counted.packet_bytes if counted else None,
        published_packets_each=counted.packets_each if counted else None,
    )


def checks(found: Sequence[Client]) -> list[Check]:
    """Return whether clients still behave as in the paper's table."""
    made = []
    for one in found:
        ratios = re.fullmatch(r"(\d+)(?:-(\d+))?", one.published_ratio or "")
        if ratios is not None and one.eliciting_per_ack is not None:
            low, high = float(ratios[1]), float(ratios[2] or ratios[1])
            made.append(
                Check(
                    one.client,
                    f"a ratio of {one.published_ratio}, within a tenth",
                    f"{one.eliciting_per_ack:.2f}",
                    low * (1 - PUBLISHED_WITHIN) <= one.eliciting_per_ack <= high * (1 + PUBLISHED_WITHIN),
                )
            )
        if one.published_parses is not None and one.takes_requests is not None:
            takes = {True: "takes ACK_FREQUENCY", False: "takes no ACK_FREQUENCY"}
            made.append(
                Check(
                    one.client,
                    f"it {takes[one.published_parses]}",
                    takes[one.takes_requests],
                    one.takes_requests == one.published_parses,
                )
            )
    return made
