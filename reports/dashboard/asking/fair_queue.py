"""A queue for the store in which waiting clients take turns, for any number of questions per client."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque

MOST_WAITING = 64
"""Maximum number of waiting questions from a client: more than the number of any page."""


class TooManyWait(Exception):
    """The client has MOST_WAITING questions that wait."""


class FairQueue:
    """`slots` places, at most `each` per client. Waiting clients take turns."""

    def __init__(self, slots: int, each: int) -> None:
        self._slots = slots
        self._each = each
        self._running: Counter[str] = Counter()
        # In the order of turns: a client that gets a place moves to the end.
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    async def take(self, client: str) -> None:
        """Wait for a place; `give_back` frees it. TooManyWait if too many questions of `client` wait."""
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
            client = next(
                (
                    waiting_client
                    for waiting_client in self._waiting
                    if self._running[waiting_client] < self._each
                ),
                None,
            )
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
