"""A server of `store serve` for a test module, and a client with a table for statements."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest
from clickhouse_driver import Client

from tests.store.served.serving import FIRSTFLIGHT, Served, serving


def sql(query: str) -> subprocess.CompletedProcess[str]:
    """Run `firstflight sql`, the answer as TSV."""
    return subprocess.run(
        [FIRSTFLIGHT, "sql", query, "--format", "TSV"], capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server for a new store."""
    with serving(tmp_path_factory.mktemp("statements") / "store") as found:
        yield found


@pytest.fixture
def client(served: Served) -> Iterator[Client]:
    """A client of the served store, with a table `t`."""
    with served.client() as found:
        found.execute("CREATE TABLE IF NOT EXISTS t (a String) ENGINE = MergeTree ORDER BY a")
        yield found
