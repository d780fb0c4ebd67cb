"""The store, backed up and restored by the steps of docs/operations.md."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

from reports import query
from store import open_store
from store.load import loader
from tests.store.conftest import template as template
from tests.store.rows import many, write
from tests.store.serving import serving

OPERATIONS = Path(__file__).parents[2] / "docs" / "operations.md"
LATER = "20261127T055900Z-bbbbbb"
QUERIES = ("iack_share", "share_over_time", "outcomes_over_time")
COPY = "cp -a /var/lib/firstflight/store"


def contents(url: str) -> dict[str, Any]:
    """Return the rows of every table, by number and checksum, and what some queries answer."""
    with open_store(url) as store:
        tables = store.rows(
            "SELECT name FROM system.tables WHERE database = currentDatabase() "
            "AND engine LIKE '%MergeTree' ORDER BY name"
        )
        counted = {
            row["name"]: store.rows(
                f"SELECT count() AS rows, sum(cityHash64(*)) AS content FROM {row['name']}"
            )
            for row in tables
        }
        asked = {name: query.rows(store, name) for name in QUERIES}
        return {"tables": counted, "queries": asked}


def loaded(paths: list[Path], url: str) -> None:
    results = loader.load_files(paths, url)
    assert all(isinstance(result, loader.Loaded) for result in results), results


def test_a_restored_store_answers_as_before_and_takes_what_came_later(template: Path, tmp_path: Path) -> None:
    assert COPY in OPERATIONS.read_text()
    folder, backup = tmp_path / "store", tmp_path / "backup"
    shutil.copytree(template, folder, symlinks=True)
    first = write(tmp_path / "one" / "quic_probe.parquet", many(500))
    later = write(tmp_path / "two" / "quic_probe.parquet", many(300, run=LATER))
    with serving(folder) as served:
        loaded([first], served.url)
        before = contents(served.url)
    assert before["tables"]["quic_probe"][0]["rows"] == 500

    # The service is stopped; a folder is copied as a whole, and it is started again.
    subprocess.run(["cp", "-a", folder, backup], check=True)
    with serving(folder) as served:
        loaded([later], served.url)
        after = contents(served.url)
        assert after["tables"]["quic_probe"][0]["rows"] == 800 and after != before

    # The disk is lost.
    shutil.rmtree(folder)
    subprocess.run(["cp", "-a", backup, folder], check=True)
    with serving(folder) as served:
        assert contents(served.url) == before
        # What was loaded before the copy counts as loaded, what came later does not.
        loaded([first, later], served.url)
        again = contents(served.url)
    assert again["queries"] == after["queries"]
    # But for the tables that say when something was loaded.
    assert again["tables"]["quic_probe"] == after["tables"]["quic_probe"]
