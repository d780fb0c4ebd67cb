"""A cell's path: delays, rates, queues, losses and reordering between the two stacks."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, Field, model_validator

Qdisc = Literal["pfifo", "none", "fq", "fq_codel", "etf"]
_Number = Annotated[int, Field(ge=1, le=1_000_000)]


class PathPart(BaseModel):
    """The path between client and server.

    Datagram numbers count the datagrams at the end of the link in one direction, from 1 in each trial,
    including retransmissions (paper 000, section 4.2).
    """

    rtt_ms: float = Field(default=9, gt=0, le=10_000, description="RTT: the sum of both delays.")
    delay_to_server_ms: float | None = Field(
        default=None, gt=0, le=10_000, description="Delay towards the server; by default half of the RTT."
    )
    rate_mbit: float = Field(default=10, gt=0, le=10_000, description="Rate towards the client.")
    rate_to_server_mbit: float | None = Field(
        default=None, gt=0, le=10_000, description="Rate towards the server; by default the same."
    )
    queue_packets: int = Field(
        default=25, ge=1, le=100_000, description="Length of the queue towards the client."
    )
    queue_to_server_packets: int | None = Field(
        default=None,
        ge=1,
        le=100_000,
        description="Length of the queue towards the server; by default the same.",
    )
    queue_bytes: int | None = Field(
        default=None,
        ge=1514,
        le=1 << 30,
        description="Length of the queue towards the client in bytes, not `queue_packets`; needs pfifo.",
    )
    qdisc: Qdisc = Field(
        default="pfifo",
        description="Queueing discipline at the server: `pfifo` is the queue in front of the path's rate. "
        "The others are on a device without a rate, and the path's queue follows them (paper 001, 3.2).",
    )
    gso: bool = Field(
        default=False, description="The server may give the kernel several datagrams in one buffer (GSO)."
    )
    gso_segments: int | None = Field(
        default=None,
        ge=2,
        le=54,
        description="Datagrams that fill a buffer; by default, a buffer spans at most a millisecond. "
        "Needs `gso`.",
    )
    gso_paced: bool = Field(
        default=False,
        description="Each datagram of a buffer has a launch time; needs `gso` and the qdisc fq or etf.",
    )
    loss_percent: float = Field(
        default=0,
        ge=0,
        lt=100,
        description="Random loss in each direction: every cell loses the same datagrams of a repetition.",
    )
    netem_loss_to_client_percent: float = Field(
        default=0, ge=0, lt=100, description="Random loss towards the client, by netem; needs pfifo."
    )
    netem_loss_to_server_percent: float = Field(
        default=0, ge=0, lt=100, description="Random loss towards the server, by netem."
    )
    drop_to_client: tuple[_Number, ...] = Field(
        default=(), max_length=100, description="Datagrams towards the client to drop, by number."
    )
    drop_to_server: tuple[_Number, ...] = Field(
        default=(), max_length=100, description="Datagrams towards the server to drop, by number."
    )
    drop_second_flight: bool = Field(
        default=False, description="Also drop the client's second flight, which repetition 0 shows."
    )
    reorder_to_client: tuple[_Number, ...] = Field(
        default=(),
        max_length=100,
        description="Datagrams towards the client that arrive `reorder_ms` late, by number; needs pfifo.",
    )
    reorder_to_server: tuple[_Number, ...] = Field(
        default=(),
        max_length=100,
        description="Datagrams towards the server that arrive `reorder_ms` late, by number.",
    )
    reorder_percent: float = Field(
        default=0,
        ge=0,
        lt=100,
        description="Random share of each direction that arrives `reorder_ms` late; needs pfifo.",
    )
    reorder_ms: float | None = Field(
        default=None, gt=0, le=10_000, description="How much later reordered datagrams arrive."
    )

    @model_validator(mode="after")
    def _is_a_path(self) -> Self:
        if self.queue_bytes is not None and self.qdisc != "pfifo":
            raise ValueError(f"`queue_bytes` does not work with the qdisc {self.qdisc}: use `queue_packets`")
        if self.gso_segments is not None and not self.gso:
            raise ValueError("`gso_segments` needs `gso`: give both")
        if self.gso_paced and not (self.gso and self.qdisc in ("fq", "etf")):
            raise ValueError("`gso_paced` needs `gso` and the qdisc fq or etf: give both")
        if self.delay_to_server_ms is not None and self.delay_to_server_ms >= self.rtt_ms:
            raise ValueError(
                f"`delay_to_server_ms` is not less than the RTT of {self.rtt_ms:g} ms: use a smaller delay, "
                "or a larger `rtt_ms`"
            )
        if self.reorders != (self.reorder_ms is not None):
            raise ValueError(
                "`reorder_ms` and reordered datagrams (`reorder_to_client`, `reorder_to_server` or "
                "`reorder_percent`) need each other: give both"
            )
        # After a queue, delayed datagrams would enter a second queue and wait until the first is empty.
        if (self.reorder_to_client or self.reorder_percent) and self.qdisc != "pfifo":
            raise ValueError(
                "`reorder_to_client` and `reorder_percent` do not work with the qdisc "
                f"{self.qdisc}, whose queue is in netem: use `reorder_to_server`, or the qdisc pfifo"
            )
        if self.netem_loss_to_client_percent and self.qdisc != "pfifo":
            raise ValueError(
                "`netem_loss_to_client_percent` does not work with the qdisc "
                f"{self.qdisc}, whose queue is in netem: use `loss_percent`"
            )
        if self.drop_second_flight and (
            self.netem_loss_to_client_percent or self.netem_loss_to_server_percent
        ):
            raise ValueError(
                "`drop_second_flight` needs a repetition 0 without loss, but netem drops datagrams there, "
                "too: use `loss_percent`"
            )
        return self

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
        """Return the length of the queue towards the server; `None` if its bytes are limited."""
        given = self.queue_to_server_packets
        return self.down_queue_packets if given is None else given

    @property
    def down_queue_packets(self) -> int | None:
        """Return the length of the queue towards the client; `None` if its bytes are limited."""
        return self.queue_packets if self.queue_bytes is None else None
