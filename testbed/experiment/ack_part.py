"""The acknowledgements that the server in a cell requests (ACK_FREQUENCY)."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, Field, model_validator

from testbed.choices import Reordering


class AckPart(BaseModel):
    """The ACK_FREQUENCY requests of the server. The other fields need `ack_ratio`."""

    ack_ratio: int | None = Field(
        default=None, ge=1, le=10_000, description="Request one ACK for this number of packets."
    )
    ack_ratio_later: int | None = Field(
        default=None,
        ge=1,
        le=10_000,
        description="Request this ratio in a second frame, after `ack_ratio_later_after` packets.",
    )
    ack_ratio_later_after: int | None = Field(
        default=None,
        ge=1,
        le=1_000_000,
        description="Number of ack-eliciting 1-RTT packets that the server sends before it requests "
        "`ack_ratio_later`.",
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
        later = (self.ack_ratio_later, self.ack_ratio_later_after)
        if self.ack_ratio is None and (self.ack_delay_ms, self.ack_reordering, *later) != (None,) * 4:
            raise ValueError(
                "`ack_delay_ms`, `ack_reordering`, `ack_ratio_later` and `ack_ratio_later_after` need "
                "`ack_ratio`"
            )
        if (later[0] is None) != (later[1] is None):
            raise ValueError(
                "`ack_ratio_later` and `ack_ratio_later_after` need each other: give both or none"
            )
        if self.ack_ratio is not None and self.ack_ratio_later == self.ack_ratio:
            raise ValueError("`ack_ratio_later` is the same as `ack_ratio`: change one, or remove the former")
        return self

    @property
    def ack_policy(self) -> str | None:
        """Return the server's requests in the form of testbed_trial; `None` without a request."""
        if self.ack_ratio is None:
            return None
        delay = "" if self.ack_delay_ms is None else f", delay {self.ack_delay_ms:g} ms"
        later = (
            ""
            if self.ack_ratio_later is None
            else f", {self.ack_ratio_later} after {self.ack_ratio_later_after} packets"
        )
        return f"ratio {self.ack_ratio}{later}{delay}" + (
            "" if self.ack_reordering is None else f", reordering {self.ack_reordering}"
        )
