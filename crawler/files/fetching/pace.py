"""Decides when requests may start: one rate for all requests, and one per address."""

from __future__ import annotations

import asyncio
from bisect import bisect_right, insort
from collections.abc import Callable
from time import monotonic

from crawler.files.fetching.fetch import Stopped

_LOOK_S = 0.5  # interval of checks whether to start or stop
_ROUNDING_S = 1e-9


class Pace:
    """Limits requests per second: `rate` in total, `per_address` per address (0: no limit).

    `clock` returns seconds. Starts are never closer together than the rate permits. A request that waits for
    its address reserves the first free instant, and other requests start before it. No request starts while
    `is_free` returns false, or after `is_ending` returns true.
    """

    def __init__(self, rate: float, per_address: float, clock: Callable[[], float] = monotonic) -> None:
        self.is_free: Callable[[], bool] = lambda: True
        self.is_ending: Callable[[], bool] = lambda: False
        self._interval = 1 / rate
        self._address_interval = 1 / per_address if per_address else 0.0
        self._clock = clock
        self._taken: list[float] = []  # reserved start times, in order; few are in the past
        self._next_of: dict[str, float] = {}
        self._limit: str | None = None

    def limit(self) -> str | None:
        """Return the limit for which the newest request waited, as text; `None` before the first request."""
        return self._limit

    def reserve(self, address: str) -> float:
        """Reserve the next start time for a request to `address`. Return the seconds until then."""
        now = self._clock()
        of_address = self._next_of.get(address, 0.0)
        begin = self._first_free(now, max(now, of_address))
        if begin == now:
            self._limit = "answers of web sites"
        else:
            self._limit = "rate" if begin > of_address + _ROUNDING_S else "limit per address"
        insort(self._taken, begin)
        self._next_of[address] = begin + self._address_interval
        if len(self._next_of) > 1024:
            self._next_of = {key: next_s for key, next_s in self._next_of.items() if next_s > now}
        return begin - now

    def _first_free(self, now: float, earliest: float) -> float:
        """Return the first instant from `earliest` on that keeps its distance to all reserved instants."""
        del self._taken[: bisect_right(self._taken, now - self._interval)]
        begin = earliest
        for taken in self._taken:
            if taken - begin > self._interval - _ROUNDING_S:
                break
            begin = max(begin, taken + self._interval)
        return begin

    async def turn(self, address: str) -> float:
        """Wait until a request to `address` may start. Return the waiting time in seconds.

        Raise Stopped if the crawl stops first.
        """
        begin = self._clock()
        while True:
            await self._wait(self.reserve(address))
            if self.is_free():
                return self._clock() - begin
            while not self.is_free():
                await self._wait(_LOOK_S)
            # All waiting requests would start at the same time, so each reserves a new time.

    async def _wait(self, seconds: float) -> None:
        end = self._clock() + seconds
        while not self.is_ending():
            left_s = end - self._clock()
            if left_s <= 0:
                return
            await asyncio.sleep(min(left_s, _LOOK_S))
        raise Stopped
