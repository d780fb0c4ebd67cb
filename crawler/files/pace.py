"""When requests may begin: a rate for all of them, and one for each address."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic

_HELD_S = 0.2


class Pace:
    """Requests a second: `rate` of all, `per_address` of one address (0 = no limit); seconds by `clock`.

    None begins while `is_free` says no.
    """

    def __init__(self, rate: float, per_address: float, clock: Callable[[], float] = monotonic) -> None:
        self.is_free: Callable[[], bool] = lambda: True
        self._interval = 1 / rate
        self.address_interval = 1 / per_address if per_address else 0.0
        self._clock = clock
        self._next = 0.0
        self._next_of: dict[str, float] = {}
        self._limit: str | None = None

    def limit(self) -> str | None:
        """Return what the newest request waited for, for people; None before the first one."""
        return self._limit

    def reserve(self, address: str) -> float:
        """Return how many seconds from now the next request to `address` begins, which is then taken."""
        now = self._clock()
        of_address = self._next_of.get(address, 0.0)
        begin = max(now, self._next, of_address)
        if begin == now:
            self._limit = "answers of web sites"
        else:
            self._limit = "rate" if self._next >= of_address else "limit per address"
        self._next = max(now, self._next) + self._interval
        self._next_of[address] = begin + self.address_interval
        if len(self._next_of) > 1024:
            self._next_of = {one: at for one, at in self._next_of.items() if at > now}
        return begin - now

    async def turn(self, address: str) -> None:
        """Wait until a request to `address` may begin."""
        wait_s = self.reserve(address)
        if wait_s > 0:
            await asyncio.sleep(wait_s)
        while not self.is_free():
            await asyncio.sleep(_HELD_S)
