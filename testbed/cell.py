"""What a cell of an experiment holds: two stacks, the path between them, and how the server answers."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Answering = Literal["iack", "wfc"]
"""Instant ACK, or wait for certificate: ACK and ServerHello in one datagram (paper 000, section 2)."""


class Cell(BaseModel):
    """One combination of conditions, repeated. Indices of dropped datagrams count from 1, per trial.

    They count what arrives at the end of the link in that direction, repetitions included (paper 000, 4.2).
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    client: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    server: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    answering: Answering
    rtt_ms: float = Field(default=9, gt=0, le=10_000, description="Twice the delay of each direction.")
    rate_mbit: float = Field(default=10, gt=0, le=10_000)
    queue_packets: int = Field(default=25, ge=1, le=100_000)
    certificate_bytes: int = Field(
        default=1200, ge=1000, le=60_000, description="Length of the chain in DER."
    )
    certificate_delay_ms: float = Field(
        default=0, ge=0, le=10_000, description="Until the server has its certificate (paper 000: Δt)."
    )
    loss_percent: float = Field(default=0, ge=0, lt=100, description="Random loss in each direction.")
    drop_to_client: tuple[int, ...] = Field(default=(), max_length=100)
    drop_to_server: tuple[int, ...] = Field(default=(), max_length=100)
    drop_second_flight: bool = Field(
        default=False, description="Drop the client's (testbed/second_flight.py) besides those."
    )

    @property
    def name(self) -> str:
        """Return the cell's name: what a result's folder is called.

        What an experiment holds for all cells is in its file; the name has what distinguishes them.
        """
        return f"{self.client}-{self.server}-{self.answering}-{self.rtt_ms:g}ms"
