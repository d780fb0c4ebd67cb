"""A cell of an experiment: two stacks, the path between them, and how the server answers."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from testbed.choices import Answering, CertificateKey, Controller, Reordering

Named = Literal[
    "certificate_bytes",
    "certificate_delay_ms",
    "drop_to_client",
    "drop_to_server",
    "body_bytes",
    "reorder_to_client",
    "reorder_to_server",
]
"""Fields that a cell's name has only where the cell says so."""
Qdisc = Literal["pfifo", "none", "fq", "fq_codel", "etf"]
"""What queues at the server: `pfifo`, in front of the path's rate. The others are on a device without a rate,
and the path's is behind them, at the client's end of the link (paper 001, section 3.2)."""
_SHORTEST_RSA_BYTES = 1500
"""In DER, of a chain with keys of RSA: its leaf has some 830 bytes, the intermediate 640."""
_Number = Annotated[int, Field(ge=1, le=1_000_000)]


class Cell(BaseModel):
    """One combination of conditions, repeated. Indices of datagrams count from 1, per trial.

    They count what arrives at the end of the link in that direction, repetitions included (paper 000, 4.2).
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    client: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    server: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    answering: Answering
    rtt_ms: float = Field(default=9, gt=0, le=10_000, description="The sum of both directions' delays.")
    delay_to_server_ms: float | None = Field(
        default=None, gt=0, le=10_000, description="Of it, that towards the server; unless given, half."
    )
    rate_mbit: float = Field(default=10, gt=0, le=10_000)
    rate_to_server_mbit: float | None = Field(
        default=None, gt=0, le=10_000, description="Rate towards the server; unless given, the same."
    )
    queue_packets: int = Field(default=25, ge=1, le=100_000)
    queue_to_server_packets: int | None = Field(
        default=None, ge=1, le=100_000, description="Queue towards the server; unless given, the same."
    )
    queue_bytes: int | None = Field(
        default=None,
        ge=1514,
        le=1 << 30,
        description="Length of the queue in bytes, instead of queue_packets; with the qdisc pfifo.",
    )
    qdisc: Qdisc = "pfifo"
    gso: bool = Field(default=False, description="The server may send several datagrams as one.")
    gso_paced: bool = Field(
        default=False, description="With gso and the qdisc fq or etf: each of them has a launch time."
    )
    certificate_bytes: int = Field(
        default=1200, ge=1000, le=60_000, description="Length of the chain in DER."
    )
    certificate_key: CertificateKey = Field(
        default="ecdsa_p256", description="Kind of the keys of the leaf and of those above it in the chain."
    )
    certificate_delay_ms: float = Field(
        default=0, ge=0, le=10_000, description="Until the server has its certificate (paper 000: Δt)."
    )
    loss_percent: float = Field(
        default=0,
        ge=0,
        lt=100,
        description="Random loss in each direction (testbed/trials/network/losses.py).",
    )
    netem_loss_to_client_percent: float = Field(
        default=0, ge=0, lt=100, description="Random loss as netem draws it, towards the client; with pfifo."
    )
    netem_loss_to_server_percent: float = Field(
        default=0, ge=0, lt=100, description="The same towards the server."
    )
    drop_to_client: tuple[_Number, ...] = Field(default=(), max_length=100)
    drop_to_server: tuple[_Number, ...] = Field(default=(), max_length=100)
    drop_second_flight: bool = Field(
        default=False,
        description="Drop the client's (testbed/trials/captures/second_flight.py) besides those.",
    )
    reorder_to_client: tuple[_Number, ...] = Field(
        default=(),
        max_length=100,
        description="Datagrams that arrive reorder_ms later than others; with pfifo.",
    )
    reorder_to_server: tuple[_Number, ...] = Field(
        default=(), max_length=100, description="The same towards the server."
    )
    reorder_percent: float = Field(
        default=0,
        ge=0,
        lt=100,
        description="A random share of each direction (testbed/trials/network/reordering.py).",
    )
    reorder_ms: float | None = Field(
        default=None, gt=0, le=10_000, description="How much later those three arrive."
    )
    body_bytes: int = Field(
        default=0, ge=0, le=1 << 30, description="Length of the response's body; 0: a header section alone."
    )
    congestion_control: Controller | None = Field(default=None, description="The server's.")
    ack_ratio: int | None = Field(
        default=None, ge=1, le=10_000, description="The server asks for an ACK for so many packets."
    )
    ack_delay_ms: float | None = Field(
        default=None, ge=1, le=16_000, description="With ack_ratio: for one after this time at the latest."
    )
    ack_reordering: Reordering | None = Field(default=None, description="With ack_ratio.")

    named: tuple[Named, ...] = Field(default=(), description="Fields that the cell's name has, too.")
    client_qlog: bool = Field(
        default=False, description="The client writes what it knows of the connection, as qlog."
    )
    server_log: bool = Field(
        default=False,
        description="The server writes launch times and windows (testbed/measures/sender_log.py).",
    )

    @model_validator(mode="after")
    def _asks_for_a_ratio(self) -> Cell:
        if self.ack_ratio is None and (self.ack_delay_ms, self.ack_reordering) != (None, None):
            raise ValueError("`ack_delay_ms` and `ack_reordering` need `ack_ratio`: give it, too")
        return self

    @model_validator(mode="after")
    def _queues_in_front_of_the_rate(self) -> Cell:
        if self.queue_bytes is not None and self.qdisc != "pfifo":
            raise ValueError(
                f"`queue_bytes` is not to be had with the qdisc {self.qdisc}: give `queue_packets`"
            )
        return self

    @model_validator(mode="after")
    def _paces_buffers(self) -> Cell:
        if self.gso_paced and not (self.gso and self.qdisc in ("fq", "etf")):
            raise ValueError("`gso_paced` needs `gso` and the qdisc fq or etf: give both")
        return self

    @model_validator(mode="after")
    def _has_two_delays(self) -> Cell:
        if self.delay_to_server_ms is not None and self.delay_to_server_ms >= self.rtt_ms:
            raise ValueError(
                f"`delay_to_server_ms` leaves nothing of the RTT of {self.rtt_ms:g} ms for the way to the "
                "client: give less, or a longer `rtt_ms`"
            )
        return self

    @model_validator(mode="after")
    def _reorders_by_a_time(self) -> Cell:
        if self.reorders != (self.reorder_ms is not None):
            raise ValueError(
                "`reorder_ms` and what arrives later (`reorder_to_client`, `reorder_to_server` or "
                "`reorder_percent`) need each other: give both"
            )
        return self

    @model_validator(mode="after")
    def _holds_back_where_nothing_queues(self) -> Cell:
        # After a queue, delayed datagrams would enter a second queue and wait until the first is empty.
        if (self.reorder_to_client or self.reorder_percent) and self.qdisc != "pfifo":
            raise ValueError(
                "`reorder_to_client` and `reorder_percent` are not to be had with the qdisc "
                f"{self.qdisc}, whose queue is in what delays: give `reorder_to_server`, or the qdisc pfifo"
            )
        return self

    @model_validator(mode="after")
    def _loses_by_netem_where_it_can(self) -> Cell:
        if self.netem_loss_to_client_percent and self.qdisc != "pfifo":
            raise ValueError(
                "`netem_loss_to_client_percent` is not to be had with the qdisc "
                f"{self.qdisc}, whose queue is in netem, too: give `loss_percent`"
            )
        if self.drop_second_flight and (
            self.netem_loss_to_client_percent or self.netem_loss_to_server_percent
        ):
            raise ValueError(
                "`drop_second_flight` needs a repetition 0 without loss, which netem takes no notice of: "
                "give `loss_percent`"
            )
        return self

    @model_validator(mode="after")
    def _has_room_for_its_keys(self) -> Cell:
        if self.certificate_key == "rsa_2048" and self.certificate_bytes < _SHORTEST_RSA_BYTES:
            raise ValueError(
                f"a chain with the keys rsa_2048 has {_SHORTEST_RSA_BYTES} bytes at least: give more "
                "`certificate_bytes`"
            )
        return self

    @property
    def name(self) -> str:
        """Return the cell's name, which is also the name of its result folder.

        The name contains the fields that distinguish cells. The experiment's file gives the common fields.
        """
        name = f"{self.client}-{self.server}-{self.answering}-{self.rtt_ms:g}ms"
        more = {
            "{:g}ms-up": self.delay_to_server_ms,
            "{:g}up": self.rate_to_server_mbit,
            "{}queued": self.queue_to_server_packets,
            "{}bytes": self.queue_bytes,
            "{}": self.congestion_control,
            "at-{}": None if self.qdisc == "pfifo" else self.qdisc.replace("_", "-"),
            "{}gso": ("paced-" if self.gso_paced else "") if self.gso else None,
            "ar{}": self.ack_ratio,
            "{:g}late": self.ack_delay_ms,
            "{:g}lost": self.loss_percent or None,
            "{:g}netem-down": self.netem_loss_to_client_percent or None,
            "{:g}netem-up": self.netem_loss_to_server_percent or None,
            "{:g}reordered": self.reorder_percent or None,
            "{:g}ms-behind": self.reorder_ms,
            "{}-key": None
            if self.certificate_key == "ecdsa_p256"
            else self.certificate_key.replace("_", "-"),
        }
        more |= {words: value for field, words, value in self._more_named() if field in self.named}
        name += "".join("-" + words.format(value) for words, value in more.items() if value is not None)
        return name if self.ack_reordering is None else f"{name}-{self.ack_reordering.replace('_', '-')}"

    def _more_named(self) -> tuple[tuple[Named, str, float | str | None], ...]:
        """Return fields that may be in the name, with the words for them there."""
        return (
            ("certificate_bytes", "{}der", self.certificate_bytes),
            ("certificate_delay_ms", "{:g}waiting", self.certificate_delay_ms),
            ("drop_to_client", "down-{}-lost", _joined(self.drop_to_client)),
            ("drop_to_server", "up-{}-lost", _joined(self.drop_to_server)),
            ("reorder_to_client", "down-{}-reordered", _joined(self.reorder_to_client)),
            ("reorder_to_server", "up-{}-reordered", _joined(self.reorder_to_server)),
            ("body_bytes", "{}body", self.body_bytes),
        )

    @property
    def ack_policy(self) -> str | None:
        """Return what the server requests, in the form of testbed_trial; None if it requests nothing."""
        if self.ack_ratio is None:
            return None
        late = "" if self.ack_delay_ms is None else f", delay {self.ack_delay_ms:g} ms"
        return f"ratio {self.ack_ratio}{late}" + (
            "" if self.ack_reordering is None else f", reordering {self.ack_reordering}"
        )

    @property
    def reorders(self) -> bool:
        """Return whether datagrams arrive later than others of their direction."""
        return bool(self.reorder_to_client or self.reorder_to_server or self.reorder_percent)

    @property
    def up_delay_ms(self) -> float:
        """Return the delay towards the server."""
        return self.rtt_ms / 2 if self.delay_to_server_ms is None else self.delay_to_server_ms

    @property
    def down_delay_ms(self) -> float:
        """Return the delay towards the client."""
        return self.rtt_ms - self.up_delay_ms

    @property
    def up_mbit(self) -> float:
        """Return the rate towards the server."""
        return self.rate_mbit if self.rate_to_server_mbit is None else self.rate_to_server_mbit

    @property
    def up_queue_packets(self) -> int | None:
        """Return the length of the queue towards the server; None if its bytes are limited."""
        given = self.queue_to_server_packets
        return self.down_queue_packets if given is None else given

    @property
    def down_queue_packets(self) -> int | None:
        """Return the length of the queue towards the client; None if its bytes are limited."""
        return self.queue_packets if self.queue_bytes is None else None


def _joined(numbers: tuple[int, ...]) -> str | None:
    """Return numbers as a name has them; None without any."""
    return "-".join(map(str, numbers)) or None
