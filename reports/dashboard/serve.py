"""Serves the dashboard until a signal."""

from __future__ import annotations

import asyncio
import signal
import socket
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType

import uvicorn

from firstflight.errors import Interrupted, UsageError
from firstflight.system import terminal
from firstflight.system.network import tcp_listener
from reports.dashboard.app import application
from reports.dashboard.connection import connections
from store import find
from store.clickhouse import listening

_HANDSHAKE_S = 10
_KEEP_ALIVE_S = 5
_GRACE_S = 5


@dataclass(frozen=True)
class Options:
    """Where the dashboard listens, and for whom; `certificate` and `key` together, or neither."""

    host: str
    port: int
    certificate: Path | None
    key: Path | None
    public: bool


class _Server(uvicorn.Server):
    """Limits TLS handshakes. On shutdown it first closes the streams of events, which would last for long."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        if self.config.is_ssl:
            loop = asyncio.get_running_loop()
            bounded = partial(loop.create_server, ssl_handshake_timeout=_HANDSHAKE_S)
            loop.create_server = bounded  # type: ignore[method-assign]
        await super().startup(sockets)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.config.app.state.events.end()  # type: ignore[union-attr]
        await super().shutdown(sockets)


def serve(options: Options) -> None:
    """Serve until SIGINT or SIGTERM.

    When the dashboard is ready, it prints a line on standard error with ` at URL` as the last words.
    UsageError for an address that cannot be used, or that others can reach without `public`; Interrupted
    after SIGINT.
    """
    find()  # an address of a store that is not valid is wrong use, not an error page
    if (options.certificate is None) != (options.key is None):
        raise UsageError("TLS needs both --certificate and --key")
    if listening.needs_password(options.host) and not options.public:
        raise UsageError(f"others can reach {options.host}: add --public, which limits their queries")
    if options.certificate and options.key:
        listening.tls_context(options.certificate, options.key)
    with connections.Listener(tcp_listener.listener(options.host, options.port)) as listener:
        server = _Server(
            uvicorn.Config(
                application(public=options.public),
                log_level="warning",
                access_log=False,
                server_header=False,
                lifespan="on",
                ws="none",
                http=connections.HttpConnection,
                loop="asyncio",
                limit_concurrency=connections.MOST,
                timeout_keep_alive=_KEEP_ALIVE_S,
                timeout_graceful_shutdown=_GRACE_S,
                ssl_certfile=options.certificate,
                ssl_keyfile=options.key,
            )
        )
        caught: list[int] = []

        def end(number: int, _: FrameType | None) -> None:
            caught.append(number)
            server.should_exit = True

        # The server installs its own handlers, and calls these when it stops.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, end)
        host, port = listener.getsockname()[:2]
        scheme = "https" if options.certificate else "http"
        terminal.echo(
            f"serving the dashboard at {scheme}://{tcp_listener.host_and_port(host, port)}/", err=True
        )
        server.run(sockets=[listener])
    if signal.SIGINT in caught:
        raise Interrupted("interrupted; the dashboard has stopped")
    terminal.echo("the dashboard has stopped", err=True)
