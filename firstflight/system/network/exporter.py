"""Answers `GET /metrics` in OpenMetrics 1.0.0 for a few concurrent clients, such as Prometheus."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from firstflight.errors import FirstflightError
from firstflight.system.network.tcp_listener import host_and_port

PATH = "/metrics"
# Time limit for a client's request, and for reading the answer; in total, not per read.
_CLIENT_S = 5.0
_AT_ONCE = 8


def text(metrics: Iterable[Metric]) -> bytes:
    """Format these metric families as OpenMetrics."""
    registry = CollectorRegistry()
    registry.register(_Given(metrics))
    exposition: bytes = generate_latest(registry)  # type: ignore[no-untyped-call]
    return exposition


def url(listener: socket.socket) -> str:
    """Return the URL of the metrics on a socket."""
    host, port = listener.getsockname()[:2]
    return f"http://{host_and_port(host, port)}{PATH}"


class _Given(Collector):
    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = list(metrics)

    def collect(self) -> Iterator[Metric]:
        yield from self._metrics


class Exporter(ThreadingHTTPServer):
    """Serves the metrics from `collect`. An answer is reused for `kept_s` seconds.

    If `collect` raises FirstflightError, the answer has status 503 and the error's sentence.
    """

    daemon_threads = True
    block_on_close = False

    def __init__(
        self, listener: socket.socket, collect: Callable[[], Iterable[Metric]], kept_s: float = 1.0
    ) -> None:
        """Take over a listening socket; `serving` closes it."""
        super().__init__(listener.getsockname()[:2], _MetricsHandler, bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        self._collect = collect
        self._cache_s = kept_s
        self._asking = threading.Lock()
        self._slots = threading.BoundedSemaphore(_AT_ONCE)
        self._answer = b""
        self._until = 0.0

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Serve in a thread during the block.

        The thread ends before the socket is closed. Otherwise, it would accept connections of the next
        socket with the same file descriptor.
        """
        thread = threading.Thread(target=self.serve_forever, name="metrics", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self.shutdown()
            thread.join()
            self.server_close()

    def answer(self) -> bytes:
        """Return the metrics, at most `kept_s` seconds old."""
        with self._asking:
            if time.monotonic() >= self._until:
                self._answer = text(self._collect())
                self._until = time.monotonic() + self._cache_s
            return self._answer

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread. Closes the connection immediately if there are too many clients."""
        if not self._slots.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer one client."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._slots.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Do not log clients that disconnected."""


class _MetricsHandler(BaseHTTPRequestHandler):
    timeout = _CLIENT_S
    server: Exporter
    server_version = "firstflight"
    sys_version = ""

    def setup(self) -> None:
        """Start the time limit of the request."""
        super().setup()
        self._deadline = self._begin()

    def finish(self) -> None:
        """Close the connection and cancel the time limit."""
        self._deadline.cancel()
        super().finish()

    def do_GET(self) -> None:
        """Answer `/metrics`; answer 404 for other paths."""
        # The time to collect the metrics does not count towards the client's limit.
        self._deadline.cancel()
        if self.path.partition("?")[0] != PATH:
            self._send(404, b"there is only /metrics here\n", "text/plain; charset=utf-8")
            return
        try:
            self._send(200, self.server.answer(), CONTENT_TYPE_LATEST)
        except FirstflightError as error:
            self._send(503, f"{error}\n".encode(), "text/plain; charset=utf-8")

    def log_message(self, format: str, *arguments: object) -> None:
        """Do not log requests."""

    def _begin(self) -> threading.Timer:
        """Return a timer that closes the connection. A socket's time-out would start again with each byte."""
        timer = threading.Timer(_CLIENT_S, self._end)
        timer.daemon = True
        timer.start()
        return timer

    def _end(self) -> None:
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def _send(self, status: int, content: bytes, kind: str) -> None:
        self._deadline = self._begin()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content)
        self.close_connection = True
