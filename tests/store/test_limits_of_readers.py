"""A reader with limits, such as the dashboard, on a served store."""

from __future__ import annotations

from pathlib import Path

import pytest

from reports.dashboard import limits
from store import open_store
from store.errors import StoreError
from tests.store.served.serving import serving


def test_a_served_store_keeps_to_them(tmp_path: Path) -> None:
    with serving(tmp_path / "store") as served:
        served.client().execute("CREATE TABLE one (n UInt32) ENGINE = MergeTree ORDER BY n")
        with open_store(served.url, limits=limits.PUBLIC) as store:
            assert store.rows("SELECT 1 AS n") == [{"n": 1}]
            with pytest.raises(StoreError):
                store.rows(f"SELECT number FROM numbers({2 * limits.PUBLIC.rows})")
