"""The exporter of metrics: a client that drips its request, or reads nothing, loses its place."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest
import requests
from prometheus_client.core import GaugeMetricFamily, Metric

from firstflight.system.network import exporter, tcp_listener
from tests.waiting import until


def _metrics() -> Iterator[Metric]:
    """Metrics of some megabytes, more than the kernel's buffers take."""
    family = GaugeMetricFamily("a", "b", labels=["c"])
    for n in range(8):
        family.add_metric([f"{n}" + "x" * 1_000_000], 1)
    yield family


@contextmanager
def serving() -> Iterator[socket.socket]:
    """An exporter; its listening socket."""
    listener = tcp_listener.listener("127.0.0.1", 0)
    with exporter.Exporter(listener, _metrics, kept_s=60).serving():
        yield listener


@pytest.mark.parametrize(
    "request_", [b"GET /metrics HTTP/1.1\r\nX-Never: ", b"GET /metrics HTTP/1.1\r\n\r\n"]
)
def test_clients_lose_their_places_in_time(monkeypatch: pytest.MonkeyPatch, request_: bytes) -> None:
    """Once, each byte restarted a read's timeout, so eight clients occupied all places."""
    monkeypatch.setattr(exporter, "_CLIENT_S", 1.0)
    with serving() as listener, ExitStack() as open_ones:
        requests.get(exporter.url(listener), timeout=60)  # collected
        clients = []
        for _ in range(exporter._AT_ONCE):
            client = open_ones.enter_context(socket.create_connection(listener.getsockname()))
            client.sendall(request_)
            clients.append(client)

        def answered() -> bool:
            if not request_.endswith(b"\r\n\r\n"):
                for client in clients:
                    with suppress(OSError):
                        client.sendall(b"x")
            try:
                return requests.get(exporter.url(listener), timeout=60).status_code == 200
            except requests.ConnectionError:
                return False

        until(answered, "a place is free")
