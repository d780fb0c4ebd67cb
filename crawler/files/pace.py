"""When requests may begin: a rate for all of them, and one for each address."""

from __future__ import annotations

import asyncio
from bisect import bisect_right, insort
from collections.abc import Callable
from time import monotonic

from crawler.files.fetch import Stopped

_LOOK_S = 0.5  # whether it may begin, and whether it is to end
_ROUNDING_S = 1e-9


class Pace:
    """Requests a second: `rate` of all, `per_address` of one address (0 = no limit); seconds by `clock`.

    No two begin closer together than the rate says, however long one waits for its address: it takes the
    first instant that no other has taken, and others begin meanwhile.
    None begins while `is_free` says no, or once `is_ending` says yes.
    """

    def __init__(self, rate: float, per_address: float, clock: Callable[[], float] = monotonic) -> None:
        self.is_free: Callable[[], bool] = lambda: True
        self.is_ending: Callable[[], bool] = lambda: False
        self._interval = 1 / rate
        self._address_interval = 1 / per_address if per_address else 0.0
        self._clock = clock
        self._taken: list[float] = []  # instants at which requests begin, in order; few of them are past
        self._next_of: dict[str, float] = {}
        self._limit: str | None = None

    def limit(self) -> str | None:
        """Return what the newest request waited for, for people; None before the first one."""
        return self._limit

    def reserve(self, address: str) -> float:
        """Return how many seconds from now the next request to `address` begins, which is then taken."""
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
            self._next_of = {one: at for one, at in self._next_of.items() if at > now}
        return begin - now

    def _first_free(self, now: float, earliest: float) -> float:
        """Return the first instant from `earliest` on that keeps the distance to all that are taken."""
        del self._taken[: bisect_right(self._taken, now - self._interval)]
        begin = earliest
        for at in self._taken:
            if at - begin > self._interval - _ROUNDING_S:
                break
            begin = max(begin, at + self._interval)
        return begin

    async def turn(self, address: str) -> float:
        """Wait until a request to `address` may begin; return for how many seconds.

        Stopped if the end comes first.
        """
        begin = self._clock()
        while True:
            await self._wait(self.reserve(address))
            if self.is_free():
                return self._clock() - begin
            while not self.is_free():
                await self._wait(_LOOK_S)
            # All that were held would begin at once: each gets a new place.

    async def _wait(self, seconds: float) -> None:
        end = self._clock() + seconds
        while not self.is_ending():
            left_s = end - self._clock()
            if left_s <= 0:
                return
            await asyncio.sleep(min(left_s, _LOOK_S))
        raise Stopped
