"""Serves metrics at /metrics until a signal, for `uploads metrics` and `site metrics`."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable

from prometheus_client.core import Metric

from firstflight.errors import Interrupted
from firstflight.system import terminal
from firstflight.system.network import exporter, tcp_listener

KEPT_S = 10.0
"""Seconds for which an answer is reused."""


def serve(host: str, port: int, collect: Callable[[], Iterable[Metric]]) -> None:
    """Print the address, serve until SIGTERM or SIGINT; Interrupted for the latter."""
    ended = threading.Event()
    caught: list[int] = []

    def end(number: int, _: object) -> None:
        caught.append(number)
        ended.set()

    listener = tcp_listener.listener(host, port)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    with exporter.Exporter(listener, collect, kept_s=KEPT_S).serving():
        terminal.echo(f"metrics at {exporter.url(listener)}", err=True)
        ended.wait()
    if signal.SIGINT in caught:
        raise Interrupted("interrupted; metrics are no longer served")
