"""`/metrics`: valid OpenMetrics from the rows of the store, and alert rules that use existing metrics."""

from __future__ import annotations

import re
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from reports import query
from reports.dashboard.pages.metrics import QUERY, text
from store import open_store
from tests.dashboard.serving import dashboard
from tests.queries.conftest import campaign as campaign
from tests.queries.conftest import template as template

ALERTS = Path(__file__).parents[2] / "deploy" / "prometheus" / "alerts.yaml"
Samples = dict[str, dict[tuple[str, ...], float]]


def samples(page: str) -> Samples:
    """Return the values of each metric by label values: vantage point, then outcome."""
    found: Samples = defaultdict(dict)
    for family in text_string_to_metric_families(page):  # type: ignore[no-untyped-call]
        for sample in family.samples:
            labels = sorted(sample.labels.items(), reverse=True)
            found[sample.name][tuple(value for _, value in labels)] = sample.value
    return found


def test_the_page_has_what_the_store_has(campaign: str) -> None:
    with dashboard(campaign) as served:
        got = served.get("/metrics")
    assert got.status == 200
    assert got.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    with open_store(campaign) as store:
        rows = query.rows(store, QUERY, {})
    assert {row["vantage"] for row in rows} == {"hamburg", "hong_kong"}
    found = samples(got.text)
    assert found["firstflight_store_up"] == {(): 1}
    assert found["firstflight_newest_run_probes"] == {
        (row["vantage"], row["outcome"]): row["probes"] for row in rows
    }
    assert set(found["firstflight_newest_probe_timestamp_seconds"]) == {(row["vantage"],) for row in rows}


def test_the_newest_sent_probe_counts() -> None:
    """Blocked probes do not count. Vantage points can have any name."""
    hostile = 'a"b\\c\nd'
    times = ["2026-11-24 01:02:03.500000000", "2026-11-24 01:02:02.000000000", None]
    rows = [
        {"vantage": hostile, "run": "r", "outcome": outcome, "probes": n, "newest_at": at}
        for n, (outcome, at) in enumerate(zip(("iack", "coalesced", "blocked"), times, strict=True))
    ]
    rows.append({"vantage": "silent", "run": "r", "outcome": "blocked", "probes": "7", "newest_at": None})
    found = samples(text(rows).decode())
    newest = datetime(2026, 11, 24, 1, 2, 3, 500_000, tzinfo=UTC).timestamp()
    assert found["firstflight_newest_probe_timestamp_seconds"] == {(hostile,): newest}
    assert found["firstflight_newest_run_probes"][hostile, "blocked"] == 2
    assert found["firstflight_newest_run_probes"]["silent", "blocked"] == 7


def test_an_unavailable_store_is_a_metric(tmp_path: Path) -> None:
    with dashboard(f"chdb:{tmp_path}/none") as served:
        got = served.get("/metrics")
    assert got.status == 200
    assert samples(got.text) == {"firstflight_store_up": {(): 0}}


@pytest.mark.parametrize("rule", yaml.safe_load(ALERTS.read_text())["groups"][0]["rules"], ids=str)
def test_rules_are_about_metrics_that_exist(rule: dict[str, str]) -> None:
    named = set(re.findall(r"firstflight_\w+", rule["expr"]))
    rows = [{"vantage": "v", "run": "r", "outcome": "iack", "probes": 1, "newest_at": "2026-11-24 01:02:03"}]
    assert named and named <= set(samples(text(rows).decode()))
    assert set(rule) == {"alert", "expr", "for", "annotations"}
