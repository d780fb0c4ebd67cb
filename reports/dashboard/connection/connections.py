"""Limits on the dashboard's connections: their number per client, the time until a request, unread bytes.

uvicorn has no such limits: a client that sends half a header section, or stops reading an answer, would keep
its connection for ever.
"""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from reports.dashboard.limits import client_key

MOST = 400
"""Maximum number of connections. A new one replaces the one that has waited longest for its request."""
MOST_EACH = 40
"""Limits per client: of direct connections, and of unanswered requests over any connection."""
REQUEST_S = 10.0
"""Time limit for a complete request, from the connection or from the first byte of a later request."""
UNREAD_S = 20.0
"""How long a client may leave the connection's buffer (64 KiB) unread."""
ABORT = "abort"
"""Key in a request's state (ASGI `scope["state"]`) of a function that closes the connection immediately."""
PROXY = "127.0.0.1"
"""The proxy with a trusted X-Forwarded-For, as for uvicorn. Its clients share its connections."""
# Consecutive refusals after which `accept` returns to the event loop.
_REFUSALS = 64


class HttpConnection(H11Protocol):
    """A connection that closes if no request arrives, or the client does not read, in time."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, {**app_state, ABORT: self.abort}, _loop)
        self._until_request: asyncio.TimerHandle | None = None
        self._until_read: asyncio.TimerHandle | None = None
        self._waits_since = self.loop.time()

    @property
    def waits(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def abort(self) -> None:
        """Close the connection and discard the buffer."""
        self.transport.abort()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start to wait for the first request."""
        super().connection_made(transport)
        # A piece is written only after the previous one has left, so `UNREAD_S` applies to a single piece.
        transport.set_write_buffer_limits(high=1, low=0)
        self._wait()
        self._make_room()

    def data_received(self, data: bytes) -> None:
        """Process received bytes. They do not restart the time limit for a request."""
        super().data_received(data)
        if self.waits:
            self._wait()
        else:
            _cancel(self._until_request)
            self._until_request = None

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self._waits_since = self.loop.time()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Wait for the client to read."""
        super().pause_writing()
        if self._until_read is None:
            self._until_read = self.loop.call_later(UNREAD_S, self.abort)

    def resume_writing(self) -> None:
        """Continue, because the client has read."""
        super().resume_writing()
        _cancel(self._until_read)
        self._until_read = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel all timers."""
        _cancel(self._until_request)
        self._until_request = None
        _cancel(self._until_read)
        self._until_read = None
        super().connection_lost(exc)

    def _wait(self) -> None:
        if self._until_request is None:
            self._until_request = self.loop.call_later(REQUEST_S, self.abort)

    def _make_room(self) -> None:
        if len(self.connections) < MOST:
            return
        others = (
            connection
            for connection in self.connections
            if isinstance(connection, HttpConnection) and connection is not self
        )
        waiting = [
            connection for connection in others if connection.waits and not connection.transport.is_closing()
        ]
        if waiting:
            min(waiting, key=lambda connection: connection._waits_since).abort()


class Listener(socket.socket):
    """A listening socket that closes connections from a client beyond MOST_EACH, before TLS and any byte."""

    def __init__(self, listening: socket.socket) -> None:
        """Take over a listening socket."""
        super().__init__(fileno=listening.detach())
        self._opened: Counter[str] = Counter()

    def accept(self) -> tuple[socket.socket, Any]:
        """Return the next connection within the limit. OSError as for any socket."""
        for _ in range(_REFUSALS):
            connection, address = super().accept()
            client = client_key(address[0])
            if address[0] == PROXY or self._opened[client] < MOST_EACH:
                self._opened[client] += 1
                return _Counted(connection, partial(self._end_of, client)), address
            connection.close()
        raise BlockingIOError

    def _end_of(self, client: str) -> None:
        self._opened[client] -= 1
        if not self._opened[client]:
            del self._opened[client]


class _Counted(socket.socket):
    """An accepted connection that calls a function when it is closed."""

    def __init__(self, connection: socket.socket, closed: Callable[[], None]) -> None:
        super().__init__(fileno=connection.detach())
        self._on_close: Callable[[], None] | None = closed

    def close(self) -> None:
        """Close the connection, and call the function once."""
        super().close()
        if self._on_close is not None:
            self._on_close()
            self._on_close = None


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
