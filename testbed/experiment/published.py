"""What papers give of cells, clients and servers, and of gains over several RTTs: printed beside ours."""

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
    """What a paper gives; `edition` names the paper's, since values differ between editions."""

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
    """A value to print beside ours: the median time to first byte of a cell."""

    client: str
    answering: Answering
    rtt_ms: float
    first_stream_ms: float
    servers: tuple[str, ...] = ()


class Timer(OfPaper):
    """What a paper gives of a client: its default PTO, and the datagrams of its second flight, as `2-4`."""

    client: str
    default_pto_ms: float
    second_flight: str


class Transfer(OfPaper):
    """What a paper gives of a transfer: its time, and the client's acknowledgements.

    `timer_percent` of ACKs are sent by the timer; the client sends `client_percent` of the server's bytes.
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
    """What a paper gives of a server's pacing (testbed/measures/pacing.py says what the numbers are)."""

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
    """What a paper gives of launch times: standard deviation of how late datagrams left."""

    server: str
    qdisc: Qdisc
    precision_ms: float


class Survey(OfPaper):
    """What a paper gives of a client: ratio of its ACKs, whether it parses ACK_FREQUENCY, bytes of an ACK."""

    client: str
    ratio: str
    parses: bool
    ack_bytes: int | None = None


class Counted(OfPaper):
    """What a paper's counters give of a client's packets: mean IP bytes, and packets that came for each."""

    client: str
    packet_bytes: tuple[float, float]
    packets_each: tuple[float, float]


class Composition(OfPaper):
    """What a paper gives of a client's ACKs, in percent of the server's bytes, and how many are bundled."""

    client: str
    body_bytes: int
    ack_low_percent: float | None = None
    ack_high_percent: float | None = None
    bundled_high_percent: float | None = None


class Updated(OfPaper):
    """What a paper gives of a client's own log: updates of its RTT estimate, and ACKs of something new."""

    client: str
    updates: int
    new_acks: int


def range_of(
    ranges: Sequence[GainRange], client: str, server: str, rtt_ms: float
) -> tuple[float | None, float | None]:
    """Return the first range that is of a pair of cells, in ms; twice None if there is none."""
    found = next((one for one in ranges if one.is_of(client, server, rtt_ms)), None)
    return (None, None) if found is None else (found.low_ms, found.high_ms)
