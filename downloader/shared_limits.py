"""Decides when a vantage point may download from an address, so that all together keep the pause of runs.

Each vantage point computes the rule by itself, as for probes (firstflight/egress/shared_limits.py). Time is
divided into turns of twice the pause. In each turn, a name belongs to one vantage point, and its runs start
only in the first half. So two runs for a name and address, from any vantage points, start at least one pause
apart. The turn does not depend on the address, because a name can have another one when it is resolved again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from downloader.files.targets import Target

TURN_IN_PAUSES = 2


@dataclass(frozen=True)
class DownloadTurn:
    """Turn of vantage point `index` of `count`. `pause_s`: between two runs for a name and address."""

    index: int
    count: int
    pause_s: float

    def begins_in(self, target: Target, now_s: float) -> float:
        """Return the number of seconds from `now_s` (UTC) until a run of the target may start."""
        if self.count < 2:
            return 0.0
        length = TURN_IN_PAUSES * self.pause_s
        turn, elapsed = divmod(now_s, length)
        turns_left = (self.index - self._share(target) - int(turn)) % self.count
        if turns_left == 0 and elapsed < self.pause_s:
            return 0.0
        return (turns_left or self.count) * length - elapsed

    def choose(self, remaining: Sequence[Target], now_s: float) -> tuple[int, float]:
        """Return the index of the target that may start first, and the seconds until then."""
        waits = [self.begins_in(target, now_s) for target in remaining]
        index = min(range(len(remaining)), key=waits.__getitem__)
        return index, waits[index]

    def take(
        self,
        remaining: list[Target],
        now_s: Callable[[], float],
        again: Callable[[Target], Target] | None = None,
    ) -> Target | float:
        """Remove and return a target whose run may start now; else return the seconds until one may.

        `now_s` returns the time (UTC). `again` resolves the target's name again.
        """
        index, wait_s = self.choose(remaining, now_s())
        target = remaining[index]
        if not wait_s and again is not None:
            target = again(target)
            # Meanwhile the time to start may have passed.
            wait_s = self.begins_in(target, now_s())
        if wait_s:
            return wait_s
        del remaining[index]
        return target

    def _share(self, target: Target) -> int:
        return int.from_bytes(blake2b(target.domain.encode(), digest_size=8).digest(), "big") % self.count
