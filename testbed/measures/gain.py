"""What an instant ACK gains: medians of both answers to the same client, path and certificate (paper 000, 4).

The gain is the median with waiting minus the median with instant ACK, not the median of differences.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from testbed.choices import Answering
from testbed.experiment.expected import Accept, Found
from testbed.experiment.experiment import Experiment
from testbed.experiment.published import range_of
from testbed.trials.cell_rows import column, difference, done, median_ms
from testbed.trials.trial_row import Row

_BOTH: tuple[Answering, Answering] = ("wfc", "iack")
# The fields that both cells of a pair share.
_CONDITIONS = (
    *("client", "server", "rtt_ms", "delay_to_server_ms", "rate_mbit", "rate_to_server_mbit"),
    *("queue_packets", "queue_to_server_packets", "queue_bytes", "certificate_bytes", "certificate_key"),
    *("certificate_delay_ms", "loss_percent", "netem_loss_to_client_percent"),
    *("netem_loss_to_server_percent", "drop_second_flight", "reorder_percent", "reorder_ms", "body_bytes"),
    *("qdisc", "gso", "gso_paced", "congestion_control", "ack_policy"),
)


@dataclass(frozen=True)
class Gain:
    """A pair of cells. Times in ms; null if the cell has no completed trial.

    `more`: the part of their names after the RTT; it distinguishes pairs of the same stacks. `partial_acks`:
    trials with WFC in which the server immediately acknowledged the first of a ClientHello's two datagrams.
    That is in effect an instant ACK, so such a pair has no verdict. `rtt_first_ms`: the client's first sample
    with instant ACK. `g_ms`: how much later the first ACK arrives with WFC. `pto_gain_ms`: the gain in the
    client's first probe timeout. `verdict`: `met`, `not met`, or null without an expectation. The
    experiment's measure decides whether `verdict` and the published range, `published_low_ms` to
    `published_high_ms`, apply to `pto_gain_ms` or to `gain_ms`. `found`: why the captures show a different
    gain, or a different cause.
    """

    client: str
    server: str
    rtt_ms: float
    certificate_delay_ms: float
    more: str
    wfc_trials: int
    wfc_done: int
    iack_trials: int
    iack_done: int
    wfc_first_stream_ms: float | None
    iack_first_stream_ms: float | None
    gain_ms: float | None
    wfc_pto_first_ms: float | None
    iack_pto_first_ms: float | None
    pto_gain_ms: float | None
    rtt_first_ms: float | None
    g_ms: float | None
    partial_acks: int
    published_wfc_ms: float | None
    published_iack_ms: float | None
    published_gain_ms: float | None
    published_low_ms: float | None
    published_high_ms: float | None
    verdict: str | None
    expected: str | None
    found: str | None
    outcomes: str

    def as_dict(self) -> dict[str, Any]:
        """Return the columns as a dictionary."""
        return asdict(self)


def gains(experiment: Experiment, rows: Sequence[Row]) -> list[Gain]:
    """Return a line for each pair of cells that `rows` have, in their order."""
    pairs: dict[tuple[Any, ...], dict[str, list[Row]]] = {}
    for row in rows:
        key = (*(row[name] for name in _CONDITIONS), _more(row))
        pairs.setdefault(key, {name: [] for name in _BOTH})[row["answering"]].append(row)
    made = [_gain(experiment, key, found) for key, found in pairs.items()]
    return sorted(made, key=lambda one: (one.server, one.rtt_ms, one.client, _by_number(one.more)))


def expected_of(
    experiment: Experiment, client: str, server: str, rtt_ms: float
) -> tuple[Accept | None, str | None]:
    """Return the expectation for a pair of cells and the reason from its captures; None where missing."""
    return (
        next((one for one in experiment.accept if one.is_of(client, server, rtt_ms)), None),
        next((one.reason for one in experiment.found if _has(one, client, server, rtt_ms)), None),
    )


def _by_number(text: str) -> list[str | float]:
    """Return what sorts a text so that the numbers in it ascend."""
    parts = re.split(r"(\d+(?:\.\d+)?)", text)
    return [float(part) if place % 2 else part for place, part in enumerate(parts)]


def _more(row: Row) -> str:
    return str(row["cell"]).partition(f"-{row['answering']}-{row['rtt_ms']:g}ms")[2].removeprefix("-")


def _gain(experiment: Experiment, key: tuple[Any, ...], found: dict[str, list[Row]]) -> Gain:
    client, server, rtt_ms = key[:3]
    wfc, iack = (done(found[name]) for name in _BOTH)
    times = [median_ms(rows, column("first_stream_us")) for rows in (wfc, iack)]
    first = [median_ms(rows, column("first_ack_us")) for rows in (wfc, iack)]
    theirs = [_published(experiment, client, server, name, rtt_ms) for name in _BOTH]
    timeouts = [median_ms(rows, column("pto_first_us")) for rows in (wfc, iack)]
    gain, pto_gain, g_ms = difference(*times), difference(*timeouts), difference(*first)
    judged = pto_gain if experiment.measure == "pto_first" else gain
    accepted, reason = expected_of(experiment, client, server, rtt_ms)
    low_ms, high_ms = range_of(experiment.gained, client, server, rtt_ms)
    partial = sum(row["partial_ack_us"] is not None for row in wfc)
    counted = Counter(row["outcome"] for name in _BOTH for row in found[name])
    return Gain(
        client=client,
        server=server,
        rtt_ms=rtt_ms,
        certificate_delay_ms=next(row["certificate_delay_ms"] for name in _BOTH for row in found[name]),
        more=next(_more(row) for name in _BOTH for row in found[name]),
        wfc_trials=len(found["wfc"]),
        wfc_done=len(wfc),
        iack_trials=len(found["iack"]),
        iack_done=len(iack),
        wfc_first_stream_ms=times[0],
        iack_first_stream_ms=times[1],
        gain_ms=gain,
        wfc_pto_first_ms=timeouts[0],
        iack_pto_first_ms=timeouts[1],
        pto_gain_ms=pto_gain,
        rtt_first_ms=median_ms(iack, column("rtt_first_us")),
        g_ms=g_ms,
        partial_acks=partial,
        published_wfc_ms=theirs[0],
        published_iack_ms=theirs[1],
        published_gain_ms=difference(*theirs),
        published_low_ms=low_ms,
        published_high_ms=high_ms,
        verdict=None if accepted is None or partial else accepted.verdict(judged, g_ms),
        expected=accepted.why if accepted else None,
        found=reason,
        outcomes=", ".join(f"{name} {count}" for name, count in sorted(counted.items())),
    )


def _has(found: Found, client: str, server: str, rtt_ms: float) -> bool:
    return client in found.clients and server in found.servers and rtt_ms in found.rtt_ms


def _published(
    experiment: Experiment, client: str, server: str, answering: Answering, rtt_ms: float
) -> float | None:
    wanted = (client, answering, rtt_ms)
    of = [
        one
        for one in experiment.published
        if (one.client, one.answering, one.rtt_ms) == wanted and (not one.servers or server in one.servers)
    ]
    return of[0].first_stream_ms if of else None
