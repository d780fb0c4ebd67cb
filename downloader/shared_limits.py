"""When a vantage point may download from an address: so that all together keep the pause between two runs.

Each vantage point computes the rule alone, as for probes (firstflight/egress/shared_limits.py): time is
divided into turns of twice the pause, in each turn an address belongs to one vantage point, and runs of it
begin in the first half alone. So two runs of an address, from whichever vantage points, begin a pause apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

from downloader.targets import Target

TURN_IN_PAUSES = 2


@dataclass(frozen=True)
class Turn:
    """Turn of vantage point `index` of `of`; `pause_s` between two runs of a name and address."""

    index: int
    of: int
    pause_s: float

    def begins_in(self, target: Target, now_s: float) -> float:
        """Return after how many seconds from `now_s` (UTC) a run of the target may begin; 0 now."""
        if self.of < 2:
            return 0.0
        length = TURN_IN_PAUSES * self.pause_s
        turn, into = divmod(now_s, length)
        waiting = (self.index - self._share(target) - int(turn)) % self.of
        if waiting == 0 and into < self.pause_s:
            return 0.0
        return (waiting or self.of) * length - into

    def choose(self, left: Sequence[Target], now_s: float) -> tuple[int, float]:
        """Return the place of the target that may begin first, and in how many seconds."""
        waits = [self.begins_in(target, now_s) for target in left]
        place = min(range(len(left)), key=waits.__getitem__)
        return place, waits[place]

    def _share(self, target: Target) -> int:
        name = f"{target.domain} {target.ip}".encode()
        return int.from_bytes(blake2b(name, digest_size=8).digest(), "big") % self.of
