"""The gain of an instant ACK, with the same client, path and certificate (paper 000, section 4).

The gain is the median with waiting minus the median with instant ACK, not the median of differences.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from pydantic import Field

from testbed.choices import Answering
from testbed.experiment.expected import GainExperiment
from testbed.experiment.published import OfPaper, range_of
from testbed.trials.cell_rows import column, difference, done, median_ms
from testbed.trials.trial_row import TrialRow

SAME_MS = 0.5
"""Times that differ by at most this are equal."""
_BOTH: tuple[Answering, Answering] = ("wfc", "iack")
# The fields that both cells in a pair share.
_CONDITIONS = (
    *("client", "server", "rtt_ms", "delay_to_server_ms", "rate_mbit", "rate_to_server_mbit"),
    *("queue_packets", "queue_to_server_packets", "queue_bytes", "certificate_bytes", "certificate_key"),
    *("certificate_delay_ms", "loss_percent", "netem_loss_to_client_percent"),
    *("netem_loss_to_server_percent", "drop_second_flight", "reorder_percent", "reorder_ms", "body_bytes"),
    *("qdisc", "gso", "gso_paced", "congestion_control", "ack_policy", "handshake", "alpn"),
)


class PublishedTime(OfPaper):
    """The published median time to first byte for a cell."""

    client: str = Field(description="The client.")
    answering: Answering = Field(description="The server's first answer.")
    rtt_ms: float = Field(description="The RTT.")
    first_stream_ms: float = Field(description="The median time to first byte.")
    servers: tuple[str, ...] = Field(
        default=(),
        description="Our servers to compare it with, which share the paper's conditions; default all.",
    )


class Fitted(OfPaper):
    """A published line through the times of an answer: `at_zero_ms` + `per_rtt` x RTT."""

    answering: Answering = Field(description="The server's first answer.")
    servers: tuple[str, ...] = Field(default=(), description="Our servers to compare it with; default all.")
    rtt_ms: tuple[float, ...] = Field(min_length=2, description="RTTs of our line.")
    at_zero_ms: float = Field(description="Time at an RTT of zero.")
    per_rtt: float = Field(description="Slope.")


class Gains(GainExperiment):
    """The gain of instant ACK: pairs of cells that differ in the answer."""

    published: tuple[PublishedTime, ...] = Field(default=(), description="Published medians.")
    fitted: tuple[Fitted, ...] = Field(default=(), description="Published lines over the RTT.")
    crossing: bool = Field(
        default=False, description="Also print the RTT below which an instant ACK costs time."
    )


@dataclass(frozen=True)
class Judged:
    """The judged time and gain.

    `time`: the columns `wfc_TIME_ms` and `iack_TIME_ms` of Gain; `gain`: the column of the gain. `definition`
    continues a sentence; `axis`, `gain_axis`: titles of the figure's axes.
    """

    time: Literal["first_stream", "pto_first"]
    gain: Literal["gain_ms", "pto_gain_ms"]
    definition: str
    axis: str
    gain_axis: str

    def of(self, gain: Gain) -> float | None:
        """Return the judged gain."""
        value: float | None = getattr(gain, self.gain)
        return value


@dataclass(frozen=True)
class Gain:
    """A pair of cells. Times in ms; null if the cell has no completed trial.

    `more`: the part of their names after the RTT; it distinguishes pairs of the same stacks. `partial_acks`:
    trials with WFC in which the server immediately acknowledged the first of a ClientHello's two datagrams.
    That is in effect an instant ACK, so such a pair has no verdict. `rtt_first_ms`: the client's first sample
    with instant ACK. `g_ms`: how much later the first ACK arrives with WFC. `pto_gain_ms`: the gain in the
    client's first probe timeout. `verdict`: `met`, `not met`, or null without an expectation. The
    measure decides whether `verdict` and the published range, `published_low_ms` to
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
    handshake: str = "full"

    def as_dict(self) -> dict[str, Any]:
        """Return the columns as a dictionary."""
        return asdict(self)


def gains(experiment: Gains, rows: Sequence[TrialRow], judged: Judged) -> list[Gain]:
    """Return a line for each pair of cells in `rows`, in the order of the pairs."""
    pairs: dict[tuple[Any, ...], dict[str, list[TrialRow]]] = {}
    for row in rows:
        key = (*(row[name] for name in _CONDITIONS), _other_conditions(row))
        pairs.setdefault(key, {name: [] for name in _BOTH})[row["answering"]].append(row)
    lines = [_gain(experiment, key, answers, judged) for key, answers in pairs.items()]
    return sorted(lines, key=lambda gain: (gain.server, gain.rtt_ms, gain.client, _number_key(gain.more)))


def _number_key(text: str) -> list[str | float]:
    """Return a sort key that orders numbers within a text by value."""
    parts = re.split(r"(\d+(?:\.\d+)?)", text)
    return [float(part) if place % 2 else part for place, part in enumerate(parts)]


def _other_conditions(row: TrialRow) -> str:
    return str(row["cell"]).partition(f"-{row['answering']}-{row['rtt_ms']:g}ms")[2].removeprefix("-")


def _gain(
    experiment: Gains, key: tuple[Any, ...], answers: dict[str, list[TrialRow]], judged: Judged
) -> Gain:
    client, server, rtt_ms = key[:3]
    wfc, iack = (done(answers[name]) for name in _BOTH)
    times = [median_ms(rows, column("first_stream_us")) for rows in (wfc, iack)]
    first = [median_ms(rows, column("first_ack_us")) for rows in (wfc, iack)]
    published_ms = [_published(experiment, client, server, name, rtt_ms) for name in _BOTH]
    timeouts = [median_ms(rows, column("pto_first_us")) for rows in (wfc, iack)]
    gain, pto_gain, g_ms = difference(*times), difference(*timeouts), difference(*first)
    ours = gain if judged.gain == "gain_ms" else pto_gain
    accepted, reason = experiment.expected(client, server, rtt_ms)
    low_ms, high_ms = range_of(experiment.gained, client, server, rtt_ms)
    partial = sum(row["partial_ack_us"] is not None for row in wfc)
    counted = Counter(row["outcome"] for name in _BOTH for row in answers[name])
    return Gain(
        client=client,
        server=server,
        rtt_ms=rtt_ms,
        certificate_delay_ms=next(row["certificate_delay_ms"] for name in _BOTH for row in answers[name]),
        more=next(_other_conditions(row) for name in _BOTH for row in answers[name]),
        wfc_trials=len(answers["wfc"]),
        wfc_done=len(wfc),
        iack_trials=len(answers["iack"]),
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
        published_wfc_ms=published_ms[0],
        published_iack_ms=published_ms[1],
        published_gain_ms=difference(*published_ms),
        published_low_ms=low_ms,
        published_high_ms=high_ms,
        verdict=None if accepted is None or partial else accepted.verdict(ours, g_ms),
        expected=accepted.why if accepted else None,
        found=reason,
        outcomes=", ".join(f"{name} {count}" for name, count in sorted(counted.items())),
        handshake=next(row.get("handshake") or "full" for name in _BOTH for row in answers[name]),
    )


def _published(
    experiment: Gains, client: str, server: str, answering: Answering, rtt_ms: float
) -> float | None:
    pair = (client, answering, rtt_ms)
    of = [
        time
        for time in experiment.published
        if (time.client, time.answering, time.rtt_ms) == pair and (not time.servers or server in time.servers)
    ]
    return of[0].first_stream_ms if of else None
