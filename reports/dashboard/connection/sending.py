"""Sends the answers of a public dashboard, with limits on the total time and on unread bytes per client."""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from reports.dashboard.connection.connections import ABORT, MOST_EACH
from reports.dashboard.connection.refusal import refusal
from reports.dashboard.limits import ClientRate, client_key

ANSWER_S = 60.0
"""Time from a request to the answer's first byte, with all waiting."""
_BEGIN_S, _BYTES_PER_S = 30.0, 100_000
"""An answer of N bytes must be read within _BEGIN_S + N / _BYTES_PER_S."""
# Limits on the unread bytes of a client, and of all clients. A client may always have one answer.
_UNREAD_EACH, _UNREAD_ALL = 32 << 20, 256 << 20
# Smaller answers count only for the client: the number of connections limits them.
_SMALL = 256 << 10
_PIECE = 64 << 10


class Sending:
    """Outermost middleware, which sees answers as they are sent."""

    def __init__(self, app: ASGIApp, rate: ClientRate) -> None:
        """`rate`: the bytes that each client may be sent."""
        self._app = app
        self._rate = rate
        self._unread: Counter[str] = Counter()
        self._running: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        client = client_key(scope["client"][0] if scope.get("client") else "")
        owed_s = self._rate.owed_s(client, time.monotonic())
        if owed_s:
            await _too_much(owed_s)(scope, receive, send)
            return
        if self._running[client] >= MOST_EACH:
            many = refusal(429, "too many of your requests are not answered yet: wait for these", 10)
            await many(scope, receive, send)
            return
        self._running[client] += 1
        try:
            await self._answer(client, scope, receive, send)
        finally:
            self._running[client] -= 1
            if not self._running[client]:
                del self._running[client]

    async def _answer(self, client: str, scope: Scope, receive: Receive, send: Send) -> None:
        answer = _SentAnswer(self, client, scope, receive, send)
        limit = asyncio.timeout(ANSWER_S)
        answer.limit = limit
        try:
            async with limit:
                await self._app(scope, receive, answer.send)
        except TimeoutError:
            if not limit.expired():
                raise
            await answer.out_of_time()

    def reserve(self, client: str, size: int) -> bool:
        """Count `size` bytes as unread; False if that is too much."""
        unread = self._unread[client]
        if unread and unread + size > _UNREAD_EACH:
            return False
        if size > _SMALL and self._unread.total() + size > _UNREAD_ALL:
            return False
        self._unread[client] += size
        return True

    def release(self, client: str, size: int) -> None:
        """Count `size` bytes as read, or as lost."""
        self._unread[client] -= size
        if not self._unread[client]:
            del self._unread[client]

    def charge(self, client: str, size: int) -> None:
        """Charge `size` bytes to the client."""
        self._rate.charge(client, time.monotonic(), size)


class _SentAnswer:
    """An answer that is being sent."""

    limit: asyncio.Timeout

    def __init__(self, all_: Sending, client: str, scope: Scope, receive: Receive, send: Send) -> None:
        self._all = all_
        self._client = client
        self._scope, self._receive, self._send = scope, receive, send
        # Held until the size of the answer is known.
        self._start: Message | None = None
        self._is_sent = self._is_refused = self._is_stream = False

    async def send(self, message: Message) -> None:
        """Send a message of the application, a piece of the body at a time."""
        if self._is_refused:
            return
        if message["type"] != "http.response.body":
            self._start = message
            return
        body = memoryview(message.get("body", b""))
        if not self._all.reserve(self._client, len(body)):
            if self._is_sent:
                await self._abort()
            else:
                await self._refuse()
            return
        try:
            await self._begin(len(body))
            await self._pieces(body, more=message.get("more_body", False))
        finally:
            self._all.release(self._client, len(body))
            self._all.charge(self._client, len(body))

    async def out_of_time(self) -> None:
        """Send an error page if nothing was sent yet; otherwise close the connection."""
        if self._is_sent:
            await self._abort()
        else:
            self._is_refused = True
            timeout = refusal(504, "there was no answer in time: request less data")
            await timeout(self._scope, self._receive, self._send)

    async def _begin(self, size: int) -> None:
        if self._start is not None:
            kind = dict(self._start["headers"]).get(b"content-type", b"")
            self._is_stream = kind.startswith(b"text/event-stream")
            self._is_sent = True
            start, self._start = self._start, None
            await self._send(start)
        # A stream of events stops by itself, and its connection closes if the client reads no data.
        until = asyncio.get_running_loop().time() + _BEGIN_S + size / _BYTES_PER_S
        self.limit.reschedule(None if self._is_stream else until)

    async def _pieces(self, body: memoryview, *, more: bool) -> None:
        for at in range(0, max(1, len(body)), _PIECE):
            piece = bytes(body[at : at + _PIECE])
            rest = more or at + _PIECE < len(body)
            await self._send({"type": "http.response.body", "body": piece, "more_body": rest})

    async def _refuse(self) -> None:
        self._is_refused = True
        busy = refusal(503, "earlier answers are still unread: read them, and try again", 10)
        await busy(self._scope, self._receive, self._send)

    async def _abort(self) -> None:
        self._is_refused = True
        abort = self._scope.get("state", {}).get(ABORT)
        if abort is not None:
            abort()
            while (await self._receive())["type"] != "http.disconnect":
                pass


def _too_much(owed_s: float) -> Response:
    sentence = "you have received too much data: wait a moment and try again"
    return refusal(429, sentence, math.ceil(owed_s))
