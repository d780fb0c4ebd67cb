"""What a paper gives of gains over several RTTs: ranges, and the lines that it draws through times."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field, model_validator

from testbed.cell import Answering


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


class Fitted(BaseModel):
    """A line that a paper draws through the times of an answer at some RTTs."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    edition: str
    answering: Answering
    servers: tuple[str, ...] = ()
    rtt_ms: tuple[float, ...] = Field(min_length=2)
    at_zero_ms: float
    per_rtt: float


def range_of(
    ranges: Sequence[GainRange], client: str, server: str, rtt_ms: float
) -> tuple[float | None, float | None]:
    """Return the first range that is of a pair of cells, in ms; twice None if there is none."""
    found = next((one for one in ranges if one.is_of(client, server, rtt_ms)), None)
    return (None, None) if found is None else (found.low_ms, found.high_ms)
