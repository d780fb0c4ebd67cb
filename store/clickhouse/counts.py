"""Counts the work of a `store serve` since its start, and exports the counts as metrics."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Literal

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

Query = Literal["answered", "inserted", "failed"]


class ServerCounts:
    """Counts of connections, queries and rows; any thread may add."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._began_s = time.time()
        self._open = 0
        self._connections = 0
        self._refused = 0
        self._queries: Counter[Query] = Counter()
        self._seconds = 0.0
        self._inserted = 0
        self._sent = 0

    def connected(self) -> None:
        """Count a new connection."""
        with self._lock:
            self._open += 1
            self._connections += 1

    def disconnected(self) -> None:
        """Count a closed connection."""
        with self._lock:
            self._open -= 1

    def refused(self) -> None:
        """Count a refused client: wrong password, wrong database, or too many clients."""
        with self._lock:
            self._refused += 1

    def query(self, end: Query, seconds: float, rows: int = 0) -> None:
        """Count a query that took `seconds`; `rows`: the rows that it sent to the client, or inserted."""
        with self._lock:
            self._queries[end] += 1
            self._seconds += seconds
            if end == "inserted":
                self._inserted += rows
            else:
                self._sent += rows

    def metrics(self) -> Iterator[Metric]:
        """Yield the families of metrics."""
        with self._lock:
            yield _gauge(
                "start_time_seconds", "When the server started, in seconds since 1970.", self._began_s
            )
            yield _gauge("connections", "Connections that are open.", self._open)
            yield _counter("accepted_connections", "Connections that were accepted.", self._connections)
            yield _counter(
                "refused_clients",
                "Clients refused because of the password, the database, or too many clients.",
                self._refused,
            )
            queries = CounterMetricFamily(
                "firstflight_store_queries", "Queries that have ended, by how they ended.", labels=["end"]
            )
            for end in ("answered", "inserted", "failed"):
                queries.add_metric([end], self._queries[end])
            yield queries
            yield _counter("query_seconds", "Time that these queries took.", self._seconds)
            yield _counter("inserted_rows", "Rows that were inserted.", self._inserted)
            yield _counter("sent_rows", "Rows that were sent to clients.", self._sent)


def _gauge(name: str, meaning: str, value: float) -> Metric:
    family = GaugeMetricFamily(f"firstflight_store_{name}", meaning)
    family.add_metric([], value)
    return family


def _counter(name: str, meaning: str, value: float) -> Metric:
    family = CounterMetricFamily(f"firstflight_store_{name}", meaning)
    family.add_metric([], value)
    return family
