"""A queue for the store: clients that wait are served one after the other, however much each asks."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque

MOST_WAITING = 64
"""Questions of one client that wait: more than any page of panels asks."""


class TooManyWait(Exception):
    """The client has MOST_WAITING questions that wait."""


class FairQueue:
    """`slots` places, `each` of one client at most; the client that had one longest ago is next."""

    def __init__(self, slots: int, each: int) -> None:
        self._slots = slots
        self._each = each
        self._running: Counter[str] = Counter()
        # The client that had a place longest ago comes first.
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    async def take(self, client: str) -> None:
        """Wait for a place, which `give_back` ends. TooManyWait if too many questions of `client` wait."""
        queue = self._waiting.setdefault(client, deque())
        if len(queue) >= MOST_WAITING:
            raise TooManyWait
        granted = asyncio.get_running_loop().create_future()
        queue.append(granted)
        self._grant()
        try:
            await granted
        except asyncio.CancelledError:
            if granted.cancelled():
                self._forget(client, granted)
            else:
                self.give_back(client)
            raise

    def give_back(self, client: str) -> None:
        """Give a place of `client` to the next one."""
        self._running[client] -= 1
        if not self._running[client]:
            del self._running[client]
        self._grant()

    def _grant(self) -> None:
        while self._running.total() < self._slots:
            client = next((one for one in self._waiting if self._running[one] < self._each), None)
            if client is None:
                return
            queue = self._waiting.pop(client)
            granted = queue.popleft()
            if queue:
                self._waiting[client] = queue
            if not granted.done():
                self._running[client] += 1
                granted.set_result(None)

    def _forget(self, client: str, granted: asyncio.Future[None]) -> None:
        queue = self._waiting.get(client)
        if queue is not None and granted in queue:
            queue.remove(granted)
            if not queue:
                del self._waiting[client]
