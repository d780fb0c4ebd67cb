"""The rate limit of queries."""

from __future__ import annotations

import asyncio


class QueryPace:
    """Rate limiter: at most `rate` turns per second (`None`: no limit). Unused turns do not accumulate."""

    def __init__(self, rate: float | None) -> None:
        self._interval = 1 / rate if rate else 0.0
        self._next = 0.0

    async def turn(self) -> None:
        """Wait for this caller's turn."""
        now = asyncio.get_running_loop().time()
        begin = max(now, self._next)
        self._next = begin + self._interval
        if begin > now:
            await asyncio.sleep(begin - now)
