"""Offset of this machine's clock: the comparison with an HTTP Date header, and its limit."""

from __future__ import annotations

from datetime import UTC
from email.utils import parsedate_to_datetime

from pydantic import BaseModel

SECOND_NS = 10**9
# Beyond this offset, times of two vantage points are not comparable, and turns overlap.
LIMIT_S = 5.0


class Offset(BaseModel):
    """The offset of this machine's clock to `reference` (positive: ahead), with its uncertainty."""

    offset_us: int
    uncertainty_us: int | None  # null: unknown (the time to start a process)
    reference: str
    compared_at_ns: int

    def off_by(self) -> int:
        """Return the minimum absolute offset, in us."""
        return max(0, abs(self.offset_us) - (self.uncertainty_us or 0))

    def exceeds(self, limit_s: float) -> bool:
        """Return whether the clock is certainly off by more than `limit_s` seconds."""
        return self.off_by() > limit_s * 1e6

    def may_exceed(self, limit_s: float) -> bool:
        """Return whether the clock is certainly off, and possibly by more than `limit_s` seconds.

        False if the uncertainty is unknown.
        """
        if self.uncertainty_us is None or self.off_by() == 0:
            return False
        return abs(self.offset_us) + self.uncertainty_us > limit_s * 1e6

    def is_beyond(self, limit_s: float = LIMIT_S) -> bool:
        """Return whether the best estimate of the offset exceeds `limit_s` s, whatever its uncertainty."""
        return abs(self.offset_us) > limit_s * 1e6

    def __str__(self) -> str:
        direction = "ahead of" if self.offset_us > 0 else "behind"
        return f"{abs(self.offset_us) / 1e6:.1f} s {direction} {self.reference}"


def by_date(date: str | None, before_ns: int, after_ns: int, reference: str) -> Offset | None:
    """Return the offset from the Date header (RFC 9110 6.6.1, whole seconds) in a response.

    The request was sent at `before_ns` and answered at `after_ns` (ns since 1970, this machine's clock).
    Return `None` without a valid Date.
    """
    if date is None:
        return None
    try:
        reference_time = parsedate_to_datetime(date)
    except (ValueError, OverflowError):
        return None
    date_ns = int(reference_time.replace(tzinfo=reference_time.tzinfo or UTC).timestamp()) * SECOND_NS
    # The server's clock was in [date, date + 1 s) at some local time in [before, after].
    low, high = before_ns - date_ns - SECOND_NS, after_ns - date_ns
    return Offset(
        offset_us=(low + high) // 2000,
        uncertainty_us=(high - low) // 2000,
        reference=reference,
        compared_at_ns=after_ns,
    )
