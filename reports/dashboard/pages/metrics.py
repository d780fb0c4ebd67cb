"""`/metrics`: metrics for a monitoring system, in OpenMetrics (version 1.0.0)."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response

from reports.dashboard.asking.asker import Asker, Question
from reports.dashboard.asking.faults import NoAnswer

QUERY = "newest_data"
_KEPT_S = 10.0
"""Scrapes within this time get the same answer, because each query starts a process."""


class Metrics:
    """Answers `/metrics` from the named query `newest_data`."""

    def __init__(self, asker: Asker) -> None:
        self._asker = asker
        self._asking = asyncio.Lock()
        self._until = 0.0
        self._text = b""

    async def page(self, request: Request) -> Response:  # noqa: ARG002
        """Return the metrics. If the store does not answer, `firstflight_store_up` is 0, without an error."""
        async with self._asking:
            if time.monotonic() >= self._until:
                self._text = text(await self._rows())
                self._until = time.monotonic() + _KEPT_S
        return Response(self._text, headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _rows(self) -> list[dict[str, Any]] | None:
        try:
            answer = await self._asker.answer(Question(QUERY, {}, "JSONEachRow"), own=True)
        except NoAnswer:
            return None
        return [json.loads(line) for line in answer.splitlines()]


def text(rows: Iterable[Mapping[str, Any]] | None) -> bytes:
    """Return the rows of `newest_data` in OpenMetrics; `None`: the store did not answer."""
    registry = CollectorRegistry()
    registry.register(_Rows(rows))
    content: bytes = generate_latest(registry)  # type: ignore[no-untyped-call]
    return content


class _Rows(Collector):
    def __init__(self, rows: Iterable[Mapping[str, Any]] | None) -> None:
        self._rows = rows

    def collect(self) -> Iterator[Metric]:
        """Yield the families of metrics."""
        up = GaugeMetricFamily("firstflight_store_up", "1 if the store answered, else 0.")
        up.add_metric([], self._rows is not None)
        yield up
        newest = GaugeMetricFamily(
            "firstflight_newest_probe_timestamp_seconds",
            "When the newest probe that is loaded was sent, in seconds since 1970.",
            labels=["vantage"],
        )
        probes = GaugeMetricFamily(
            "firstflight_newest_run_probes",
            "Probes of the vantage point's newest run, by outcome.",
            labels=["vantage", "outcome"],
        )
        sent_s: dict[str, float] = {}
        for row in self._rows or ():
            probes.add_metric([row["vantage"], row["outcome"]], int(row["probes"]))
            if row["newest_at"] is not None:
                sent_s[row["vantage"]] = max(sent_s.get(row["vantage"], 0), _seconds(row["newest_at"]))
        for vantage, seconds in sent_s.items():
            newest.add_metric([vantage], seconds)
        yield newest
        yield probes


def _seconds(time_text: str) -> float:
    """Return the seconds since 1970 of a time (UTC) as the store writes it, with nanoseconds."""
    return datetime.fromisoformat(time_text[:26]).replace(tzinfo=UTC).timestamp()
