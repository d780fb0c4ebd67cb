"""Published values for cells, clients, servers and gains over several RTTs, printed next to ours."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field, model_validator

from testbed.choices import Answering, Controller, Reordering
from testbed.experiment.cell import Qdisc


class OfPairs(BaseModel):
    """Something about pairs of cells that differ in the answer: without clients, servers or RTTs, of all."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    clients: tuple[str, ...] = ()
    servers: tuple[str, ...] = ()
    rtt_ms: tuple[float, ...] = ()

    def is_of(self, client: str, server: str, rtt_ms: float) -> bool:
        """Return whether it is about such a pair of cells."""
        return (
            (not self.clients or client in self.clients)
            and (not self.servers or server in self.servers)
            and (not self.rtt_ms or rtt_ms in self.rtt_ms)
        )


class GainRange(OfPairs):
    """The gain of instant ACK that a paper gives: between two values."""

    edition: str
    low_ms: float
    high_ms: float

    @model_validator(mode="after")
    def _is_a_range(self) -> GainRange:
        if self.low_ms > self.high_ms:
            raise ValueError("`low_ms` is above `high_ms`: exchange them")
        return self


class OfPaper(BaseModel):
    """A published value; `edition` names the paper's edition, since values differ between editions."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    edition: str


class Fitted(OfPaper):
    """A line that a paper draws through the times of an answer at some RTTs."""

    answering: Answering
    servers: tuple[str, ...] = ()
    rtt_ms: tuple[float, ...] = Field(min_length=2)
    at_zero_ms: float
    per_rtt: float


class Published(OfPaper):
    """The published median time to first byte of a cell."""

    client: str
    answering: Answering
    rtt_ms: float
    first_stream_ms: float
    servers: tuple[str, ...] = ()


class Timer(OfPaper):
    """A client's published default PTO and the datagrams of its second flight, written as `2-4`."""

    client: str
    default_pto_ms: float
    second_flight: str


class Transfer(OfPaper):
    """A transfer's published time and acknowledgements.

    The timer sends `timer_percent` of the ACKs. The client sends `client_percent` of the server's bytes.
    """

    rtt_ms: float
    ack_ratio: int
    ack_delay_ms: float = 25
    loss_percent: float = 0
    ack_reordering: Reordering = "at_once"
    transfer_s: float | None = None
    timer_percent: float | None = None
    client_percent: float | None = None


class PacedResult(OfPaper):
    """A server's published pacing (testbed/measures/pacing.py defines the numbers)."""

    server: str
    congestion_control: Controller | None = None
    qdisc: Qdisc = "none"
    gso: bool = False
    gso_paced: bool = False
    changed: str | None = None
    dropped: float | None = None
    goodput_mbit: float | None = None
    below_percent: float | None = None
    alone_percent: float | None = None
    le5_percent: float | None = None
    gap_p50_us: float | None = None


class Launched(OfPaper):
    """A server's published launch times: the standard deviation of how late datagrams left."""

    server: str
    qdisc: Qdisc
    precision_ms: float


class Survey(OfPaper):
    """A client's published ACK ratio, whether it parses ACK_FREQUENCY, and the bytes of an ACK."""

    client: str
    ratio: str
    parses: bool
    ack_bytes: int | None = None


class Counted(OfPaper):
    """A client's published packet counters: mean IP bytes, and packets received per packet sent."""

    client: str
    packet_bytes: tuple[float, float]
    packets_each: tuple[float, float]


class Composition(OfPaper):
    """A client's published ACKs: percent of the server's bytes, and the share that is bundled."""

    client: str
    body_bytes: int
    ack_low_percent: float | None = None
    ack_high_percent: float | None = None
    bundled_high_percent: float | None = None


class Updated(OfPaper):
    """Published counts from a client's own log: RTT estimate updates, and ACKs of new packets."""

    client: str
    updates: int
    new_acks: int


def range_of(
    ranges: Sequence[GainRange], client: str, server: str, rtt_ms: float
) -> tuple[float | None, float | None]:
    """Return the first range that applies to a pair of cells, in ms; (None, None) without one."""
    found = next((one for one in ranges if one.is_of(client, server, rtt_ms)), None)
    return (None, None) if found is None else (found.low_ms, found.high_ms)
