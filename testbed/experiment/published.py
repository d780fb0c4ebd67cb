"""Published values: the common parts of the tables in an experiment's file."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field, model_validator


class OfPaper(BaseModel):
    """A published value."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    edition: str = Field(description="The paper's edition: values differ between editions.")


class OfPairs(BaseModel):
    """A statement about pairs of cells that differ in the answer."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    clients: tuple[str, ...] = Field(default=(), description="Clients it applies to; by default all.")
    servers: tuple[str, ...] = Field(default=(), description="Servers it applies to; by default all.")
    rtt_ms: tuple[float, ...] = Field(default=(), description="RTTs it applies to; by default all.")

    def is_of(self, client: str, server: str, rtt_ms: float) -> bool:
        """Return whether it applies to such a pair of cells."""
        return (
            (not self.clients or client in self.clients)
            and (not self.servers or server in self.servers)
            and (not self.rtt_ms or rtt_ms in self.rtt_ms)
        )


class GainRange(OfPaper, OfPairs):
    """The published gain of instant ACK: between two values."""

    low_ms: float = Field(description="Lower bound of the gain.")
    high_ms: float = Field(description="Upper bound of the gain.")

    @model_validator(mode="after")
    def _is_a_range(self) -> GainRange:
        if self.low_ms > self.high_ms:
            raise ValueError("`low_ms` is above `high_ms`: exchange them")
        return self


def range_of(
    ranges: Sequence[GainRange], client: str, server: str, rtt_ms: float
) -> tuple[float | None, float | None]:
    """Return the first range that applies to a pair of cells, in ms; (`None`, `None`) without one."""
    applying = next((range_ for range_ in ranges if range_.is_of(client, server, rtt_ms)), None)
    return (None, None) if applying is None else (applying.low_ms, applying.high_ms)
