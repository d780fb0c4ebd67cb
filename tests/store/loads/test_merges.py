"""Concurrent merges: the limits that bound a loader's memory are in force, and no statement waits."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from store import Store, open_store
from tests.store.served.serving import serving
from tests.waiting import until

PARTS = 24


@pytest.mark.parametrize("where", ["embedded", "served"])
def test_few_merges_at_a_time_column_by_column(tmp_path: Path, where: str) -> None:
    if where == "embedded":
        with open_store(f"chdb:{tmp_path / 'store'}", write=True) as store:
            check(store, "1")
        check_removal(tmp_path / "store")
    else:
        with serving(tmp_path / "store") as served, open_store(served.url, write=True) as store:
            check(store, "2")


def check_removal(folder: Path) -> None:
    """A short session removes parts that an earlier one merged more than a minute ago."""

    def parts() -> list[Path]:
        # Only the last part of the pattern is within a part, which may vanish meanwhile.
        return [path.parent for path in folder.glob("store/*/*/*/columns.txt")]

    assert len(parts()) > PARTS
    two_minutes_ago = time.time() - 120
    for part in parts():
        os.utime(part, (two_minutes_ago, two_minutes_ago))
    with open_store(f"chdb:{folder}", write=True):
        until(lambda: len(parts()) == 1, "merged parts are removed", limit_s=10)


def test_a_reader_merges_nothing(tmp_path: Path) -> None:
    location = f"chdb:{tmp_path / 'store'}"
    with open_store(location, write=True):
        pass
    # The limits are smaller than any part, so there are no merges. The test does not wait to observe this,
    # because the engine checks for merges only about every ten seconds.
    limits = ("max_bytes_to_merge_at_min_space_in_pool", "max_bytes_to_merge_at_max_space_in_pool")
    with open_store(location) as store:
        rows = store.rows(f"SELECT name, value FROM system.merge_tree_settings WHERE name IN {limits}")
    assert {row["name"]: row["value"] for row in rows} == dict.fromkeys(limits, "1")


def check(store: Store, slots: str) -> None:
    # The defaults are 32 concurrent merges of up to 100 parts, and horizontal merges below 131,072 rows.
    settings = {
        "server_settings": {
            "background_pool_size": slots,
            "background_merges_mutations_concurrency_ratio": "1",
        },
        "merge_tree_settings": {
            "vertical_merge_algorithm_min_rows_to_activate": "1",
            "max_parts_to_merge_at_once": "8",
            "number_of_free_entries_in_pool_to_lower_max_size_of_merge": slots,
        },
    }
    for table, values in settings.items():
        names = ", ".join(f"'{name}'" for name in values)
        rows = store.rows(f"SELECT name, value FROM system.{table} WHERE name IN ({names})")
        assert {row["name"]: row["value"] for row in rows} == values
    database = store.dialect.database
    store.execute(f"CREATE TABLE {database}.one (n UInt32) ENGINE = MergeTree ORDER BY n")
    for number in range(PARTS):
        store.execute(f"INSERT INTO {database}.one SELECT number + {number} FROM numbers(10)")
    # Both statements need a free slot in addition to the merges that the parts have started.
    store.execute(f"ALTER TABLE {database}.one DELETE WHERE n = 0")
    store.execute(f"OPTIMIZE TABLE {database}.one FINAL")
    parts = f"system.parts WHERE active AND database = '{database}' AND table = 'one'"
    assert store.rows(f"SELECT count() AS parts, sum(rows) AS rows FROM {parts}") == [
        {"parts": 1, "rows": 10 * PARTS - 1}
    ]
