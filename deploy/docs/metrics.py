"""The page of metrics, from the families that the programs serve."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from unittest import mock

from prometheus_client.core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from orchestration.site import machine_metrics
from orchestration.site import metrics as site
from reports.dashboard.pages import metrics as dashboard
from store.clickhouse.counts import ServerCounts

HEAD = """\
# Metrics

Four programs serve OpenMetrics at `/metrics`. Prometheus and similar systems read them.
"""


def markdown() -> str:
    """Return the page: the families of each program, as it serves them before it has measured anything."""
    parts = [HEAD]
    for command, description, families in (
        ("uploads metrics", "A vantage point: its uploads, rates, losses and clock.", _site()),
        (
            "site metrics",
            "A machine: its disks, certificates, backups, services.",
            machine_metrics.families(),
        ),
        ("store serve", "A served store: its clients and queries.", ServerCounts().metrics()),
        ("dashboard", "The newest data in the store.", _dashboard()),
    ):
        rows = [f"| `{family.name}` | {family.type} | {family.documentation} |" for family in families]
        parts.append(f"## firstflight {command}\n\n{description}\n")
        parts.append("\n".join(["| metric | type | meaning |", "| --- | --- | --- |", *rows, ""]))
    return "\n".join(parts)


def _site() -> Iterable[Metric]:
    with tempfile.TemporaryDirectory() as empty, mock.patch.dict(os.environ, {"FIRSTFLIGHT_RUNS": empty}):
        return list(site.metrics())


def _dashboard() -> Iterator[Metric]:
    text = dashboard.text(None).decode()
    found: Iterator[Metric] = text_string_to_metric_families(text)  # type: ignore[no-untyped-call]
    return found
