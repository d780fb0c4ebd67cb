"""`/events`: server-sent events that announce new rows in the store, and the newest data's time."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from reports.dashboard.asking.asker import CLIENT
from reports.dashboard.asking.faults import NoAnswer
from reports.dashboard.asking.newest import FRESH_S, Watcher

MOST = 250
"""Maximum number of browsers that wait for events; others try again later."""
MOST_EACH = 12
"""Maximum for a single client of a public dashboard."""
LONGEST_S = 3600.0
"""A stream's duration; afterwards the browser opens another one if it is still open."""
# Maximum interval between messages, which reveal that a client has disconnected.
_ALIVE_S = 15.0


class EventStream:
    """Sends `newest` events to each open browser, until `end`."""

    def __init__(self, watcher: Watcher, *, public: bool = False) -> None:
        self._watcher = watcher
        self._each = MOST_EACH if public else MOST
        self._open: Counter[str] = Counter()
        self._ending = asyncio.Event()

    def end(self) -> None:
        """End all streams."""
        self._ending.set()

    async def page(self, request: Request) -> Response:  # noqa: ARG002
        """Return the stream of events. HTTPException if too many are open."""
        client = CLIENT.get()
        if self._open[client] >= self._each:
            raise HTTPException(429, "too many of your pages wait for new rows: close some of them")
        if self._open.total() >= MOST:
            raise HTTPException(503, "too many browsers wait for new rows: reload the page later")
        return StreamingResponse(self._stream(client), media_type="text/event-stream")

    async def _stream(self, client: str) -> AsyncIterator[bytes]:
        self._open[client] += 1
        until = asyncio.get_running_loop().time() + LONGEST_S
        try:
            sent, since_s = "", _ALIVE_S
            while not self._ending.is_set() and asyncio.get_running_loop().time() < until:
                event = await self._event()
                if event != sent or since_s >= _ALIVE_S:
                    yield event.encode()
                    sent, since_s = event, 0.0
                try:
                    async with asyncio.timeout(FRESH_S):
                        await self._ending.wait()
                except TimeoutError:
                    since_s += FRESH_S
        finally:
            self._open[client] -= 1
            if not self._open[client]:
                del self._open[client]

    async def _event(self) -> str:
        try:
            newest = await self._watcher.newest()
        except NoAnswer as error:
            return f"event: away\ndata: {json.dumps({'sentence': str(error)})}\n\n"
        data = {"stamp": newest.stamp, "until": newest.data_until}
        return f"event: newest\ndata: {json.dumps(data)}\n\n"
