"""Counters of `store serve --metrics-port`, read with an OpenMetrics parser."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import requests
from clickhouse_driver.errors import ServerException
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from tests.store.served.serving import Served, serving
from tests.waiting import until


def metrics_url(served: Served) -> str:
    """Return the metrics address that the server prints last."""
    assert served.process.stderr is not None
    line = served.process.stderr.readline()
    found = re.match(r"metrics at (http://127\.0\.0\.1:\d+/metrics)$", line)
    assert found, line
    return found[1]


def samples(url: str) -> dict[str, float]:
    """Return name (and label) -> value of the store's metrics."""
    answer = requests.get(url, timeout=60)
    assert answer.status_code == 200
    assert answer.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
    found = {}
    for family in text_string_to_metric_families(answer.text):  # type: ignore[no-untyped-call]
        for sample in family.samples:
            found["/".join([sample.name.removeprefix("firstflight_store_"), *sample.labels.values()])] = (
                sample.value
            )
    return found


def test_connections_queries_and_rows(tmp_path: Path) -> None:
    with serving(tmp_path / "store", "--metrics-port", "0") as served:
        url = metrics_url(served)
        before = samples(url)
        assert before["accepted_connections_total"] == before["connections"] == 0
        client = served.client()
        client.execute("CREATE TABLE numbers (n UInt32) ENGINE = MergeTree ORDER BY n")
        assert client.execute("INSERT INTO numbers VALUES", [(n,) for n in range(7)]) == 7
        assert len(client.execute("SELECT n FROM numbers")) == 7
        with pytest.raises(ServerException):
            client.execute("SELECT nothing FROM numbers")
        with pytest.raises(ServerException):
            served.client(user="default", password="wrong").execute("SELECT 1")
        now = samples(url)
        assert (now["queries_total/inserted"], now["inserted_rows_total"]) == (1, 7)
        assert (now["queries_total/answered"], now["sent_rows_total"]) == (2, 7)
        assert now["queries_total/failed"] == 1
        assert now["query_seconds_total"] > 0
        assert now["refused_clients_total"] == 1
        assert now["accepted_connections_total"] == 2
        client.disconnect()
        until(lambda: samples(url)["connections"] == 0, lambda: samples(url))


def test_other_paths_are_404(tmp_path: Path) -> None:
    with serving(tmp_path / "store", "--metrics-port", "0") as served:
        url = metrics_url(served)
        assert requests.get(url.removesuffix("metrics"), timeout=60).status_code == 404
        assert requests.post(url, timeout=60).status_code == 501


def test_a_port_in_use_is_one_sentence(tmp_path: Path) -> None:
    with (
        serving(tmp_path / "store", "--metrics-port", "0") as served,
        pytest.raises(AssertionError, match="cannot listen on 127"),
        serving(tmp_path / "other", "--metrics-port", metrics_url(served).split(":")[2].split("/")[0]),
    ):
        pass
