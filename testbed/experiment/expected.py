"""Expected gains of instant ACK, and the reasons for other gains that captures show."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, model_validator

from testbed.experiment.experiment import Experiment
from testbed.experiment.published import GainRange, OfPairs


class Accept(OfPairs):
    """The expected gain of instant ACK: the median with WFC minus the median with instant ACK.

    Either `low_ms` and `high_ms`, or `g` with `within_ms` or `within_percent`.
    """

    clients: tuple[str, ...] = Field(min_length=1, description="Clients it applies to.")
    low_ms: float | None = Field(default=None, description="Lower bound of the gain.")
    high_ms: float | None = Field(default=None, description="Upper bound of the gain.")
    g: float | None = Field(
        default=None,
        gt=0,
        description="The gain as a multiple of g, which is how much later the first ACK arrives with WFC.",
    )
    within_percent: float | None = Field(default=None, gt=0, description="Tolerance of the multiple.")
    within_ms: float | None = Field(default=None, gt=0, description="Tolerance of the multiple.")
    g_low_ms: float | None = Field(default=None, gt=0, description="Lower bound of g; with `g_high_ms`.")
    g_high_ms: float | None = Field(default=None, gt=0, description="Upper bound of g.")
    why: str = Field(description="The reason for the expectation.")

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
            raise ValueError("`g_low_ms` and `g_high_ms` need each other and `g`")
        return self

    def limits_ms(self, g_ms: float | None) -> tuple[float, float] | None:
        """Return the accepted range; `None` if it is a multiple of g and `g_ms` is unknown."""
        if self.low_ms is not None and self.high_ms is not None:
            return self.low_ms, self.high_ms
        if g_ms is None or self.g is None:
            return None
        middle = self.g * g_ms
        off = self.within_ms if self.within_ms is not None else abs(middle) * (self.within_percent or 0) / 100
        return middle - off, middle + off

    def verdict(self, value_ms: float | None, g_ms: float | None = None) -> str | None:
        """Return whether a value is as expected, `met` or `not met`; `None` without a value or a range.

        A g outside its own limits is not met: if the value follows from g, only these limits can fail.
        """
        limits = self.limits_ms(g_ms)
        if value_ms is None or limits is None:
            return None
        is_met = limits[0] <= value_ms <= limits[1]
        if g_ms is not None and self.g_low_ms is not None and self.g_high_ms is not None:
            is_met = is_met and self.g_low_ms <= g_ms <= self.g_high_ms
        return "met" if is_met else "not met"


class GainReason(BaseModel):
    """A reason from captures: why a gain differs from the expected one, or has another cause."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    clients: tuple[str, ...] = Field(description="Clients it applies to.")
    servers: tuple[str, ...] = Field(description="Servers it applies to.")
    rtt_ms: tuple[float, ...] = Field(description="RTTs it applies to.")
    reason: str = Field(description="What the captures show.")


class GainExperiment(Experiment):
    """An experiment that judges the gain of instant ACK: pairs of cells that differ in the answer."""

    gained: tuple[GainRange, ...] = Field(default=(), description="Published ranges of the gain.")
    accept: tuple[Accept, ...] = Field(default=(), description="Expected gains.")
    found: tuple[GainReason, ...] = Field(default=(), description="Reasons for a different gain or cause.")
    trend_ms: float | None = Field(
        default=None,
        gt=0,
        description="Largest accepted change of a gain over all RTTs at which `g` is expected. A larger "
        "change of the Theil-Sen line is a trend if Kendall's test agrees.",
    )

    def expected(self, client: str, server: str, rtt_ms: float) -> tuple[Accept | None, str | None]:
        """Return a pair of cells' expectation, and the reason from its captures; either may be `None`."""
        return (
            next((accept for accept in self.accept if accept.is_of(client, server, rtt_ms)), None),
            next(
                (reason.reason for reason in self.found if _is_reason_for(reason, client, server, rtt_ms)),
                None,
            ),
        )


def _is_reason_for(found: GainReason, client: str, server: str, rtt_ms: float) -> bool:
    return client in found.clients and server in found.servers and rtt_ms in found.rtt_ms
