"""The acknowledgements that the server in a cell requests (ACK_FREQUENCY)."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, Field, model_validator

from testbed.choices import Reordering


class AckPart(BaseModel):
    """The ACK_FREQUENCY request of the server. `ack_delay_ms` and `ack_reordering` need `ack_ratio`."""

    ack_ratio: int | None = Field(
        default=None, ge=1, le=10_000, description="Request one ACK for this number of packets."
    )
    ack_delay_ms: float | None = Field(
        default=None, ge=1, le=16_000, description="Request an ACK after this time at the latest."
    )
    ack_reordering: Reordering | None = Field(
        default=None,
        description="Request this response to reordering: an ACK `at_once`, none (`ignored`), or one for "
        "each of the `next_three` packets.",
    )

    @model_validator(mode="after")
    def _asks_for_a_ratio(self) -> Self:
        if self.ack_ratio is None and (self.ack_delay_ms, self.ack_reordering) != (None, None):
            raise ValueError("`ack_delay_ms` and `ack_reordering` need `ack_ratio`")
        return self

    @property
    def ack_policy(self) -> str | None:
        """Return the server's request in the form of testbed_trial; `None` without a request."""
        if self.ack_ratio is None:
            return None
        delay = "" if self.ack_delay_ms is None else f", delay {self.ack_delay_ms:g} ms"
        return f"ratio {self.ack_ratio}{delay}" + (
            "" if self.ack_reordering is None else f", reordering {self.ack_reordering}"
        )
