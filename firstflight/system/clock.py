"""Offset of this machine's clock: the comparison with an HTTP Date header, and its limit."""

from __future__ import annotations

from datetime import UTC
from email.utils import parsedate_to_datetime

from pydantic import BaseModel

SECOND_NS = 10**9
# Beyond this, times of two vantage points are not comparable, and a turn overlaps another's.
LIMIT_S = 5.0


class Offset(BaseModel):
    """How far this machine's clock is ahead of `reference` (negative: behind), with its uncertainty."""

    offset_us: int
    uncertainty_us: int | None  # null = unknown (the time that the start of a process took)
    reference: str
    compared_at_ns: int

    def off_by(self) -> int:
        """Return the minimum absolute offset, in us."""
        return max(0, abs(self.offset_us) - (self.uncertainty_us or 0))

    def exceeds(self, limit_s: float) -> bool:
        """Return whether the clock is certainly off by more than `limit_s` seconds."""
        return self.off_by() > limit_s * 1e6

    def may_exceed(self, limit_s: float) -> bool:
        """Return whether the clock is certainly off, and may be by more than `limit_s` seconds.

        False if the uncertainty is unknown.
        """
        if self.uncertainty_us is None or self.off_by() == 0:
            return False
        return abs(self.offset_us) + self.uncertainty_us > limit_s * 1e6

    def is_beyond(self, limit_s: float = LIMIT_S) -> bool:
        """Whether it is off by more than `limit_s` seconds by the best estimate, however unsure that is."""
        return abs(self.offset_us) > limit_s * 1e6

    def __str__(self) -> str:
        way = "ahead of" if self.offset_us > 0 else "behind"
        return f"{abs(self.offset_us) / 1e6:.1f} s {way} {self.reference}"


def by_date(date: str | None, before_ns: int, after_ns: int, reference: str) -> Offset | None:
    """Return the offset by the Date header (RFC 9110 6.6.1, whole seconds) of a response.

    The request was sent at `before_ns` and answered at `after_ns` (ns since 1970, this machine's clock). None
    without a valid Date.
    """
    if date is None:
        return None
    try:
        there = parsedate_to_datetime(date)
    except (ValueError, OverflowError):
        return None
    date_ns = int(there.replace(tzinfo=there.tzinfo or UTC).timestamp()) * SECOND_NS
    # The server's clock was in [date, date + 1 s) at some local time in [before, after].
    least, most = before_ns - date_ns - SECOND_NS, after_ns - date_ns
    return Offset(
        offset_us=(least + most) // 2000,
        uncertainty_us=(most - least) // 2000,
        reference=reference,
        compared_at_ns=after_ns,
    )
