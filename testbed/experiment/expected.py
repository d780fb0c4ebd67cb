"""Expected gains of instant ACK, and reasons from captures for unmet expectations."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, model_validator

from testbed.experiment.published import OfPairs


class Accept(OfPairs):
    """Where the gain of instant ACK (median of waiting minus median of instant ACK) is expected, for whom."""

    clients: tuple[str, ...] = Field(min_length=1)
    low_ms: float | None = None
    high_ms: float | None = None
    g: float | None = Field(default=None, gt=0)
    within_percent: float | None = Field(default=None, gt=0)
    within_ms: float | None = Field(default=None, gt=0)
    g_low_ms: float | None = Field(default=None, gt=0)
    g_high_ms: float | None = Field(default=None, gt=0)
    why: str

    @model_validator(mode="after")
    def _is_a_range(self) -> Accept:
        both = None not in (self.low_ms, self.high_ms)
        if both == (self.g is not None) or (self.low_ms is None) != (self.high_ms is None):
            raise ValueError("give `low_ms` and `high_ms`, or else `g`")
        if ((self.within_ms is None) == (self.within_percent is None)) != (self.g is None):
            raise ValueError("`g` needs either `within_ms` or `within_percent`, which need `g`")
        if None not in (self.within_ms, self.within_percent):
            raise ValueError("`g` needs either `within_ms` or `within_percent`, not both")
        limits = (self.g_low_ms, self.g_high_ms)
        if limits != (None, None) and (self.g is None or None in limits):
            raise ValueError("`g_low_ms` and `g_high_ms` come together, and with `g`")
        return self

    def limits_ms(self, g_ms: float | None) -> tuple[float, float] | None:
        """Return the range; None if it is of a multiple of g, and `g_ms` is not known."""
        if self.low_ms is not None and self.high_ms is not None:
            return self.low_ms, self.high_ms
        if g_ms is None or self.g is None:
            return None
        about = self.g * g_ms
        off = self.within_ms if self.within_ms is not None else abs(about) * (self.within_percent or 0) / 100
        return about - off, about + off

    def verdict(self, value_ms: float | None, g_ms: float | None = None) -> str | None:
        """Return whether a value is as expected, `met` or `not met`; None without it, or without a range.

        A g beyond its own limits is not met: where the value follows from g, they are what can fail.
        """
        limits = self.limits_ms(g_ms)
        if value_ms is None or limits is None:
            return None
        is_met = limits[0] <= value_ms <= limits[1]
        if g_ms is not None and self.g_low_ms is not None and self.g_high_ms is not None:
            is_met = is_met and self.g_low_ms <= g_ms <= self.g_high_ms
        return "met" if is_met else "not met"


class Found(BaseModel):
    """A reason from captures: why a gain differs from the expected one, or has another cause."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    clients: tuple[str, ...]
    servers: tuple[str, ...]
    rtt_ms: tuple[float, ...]
    reason: str


class Reason(BaseModel):
    """A reason from captures, for unmet expectations whose text contains every part in `of`."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    of: tuple[str, ...] = Field(min_length=1)
    reason: str
