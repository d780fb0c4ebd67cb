"""Only rows older than a table's retention are deleted, in whole months."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from firstflight.errors import UsageError
from store import Store, open_store
from store.load import loader
from store.tables import retention
from tests.store.rows import many, write
from tests.store.served.serving import FIRSTFLIGHT

DAY_NS = 86_400 * 10**9


def count(store: Store) -> list[dict[str, int]]:
    return store.rows("SELECT run, count() AS n FROM quic_probe GROUP BY run ORDER BY run")


@pytest.mark.usefixtures("tables")
def test_old_months_go_and_the_rest_stays(tmp_path: Path) -> None:
    now = time.time_ns()
    paths = [
        write(tmp_path / run / "quic_probe.parquet", many(3, run=run, sent_at=now - age * DAY_NS))
        for run, age in (("a-old", 400), ("b-young", 20))
    ]
    loader.load_files(paths)
    with open_store(write=True) as store:
        assert {retained.months for retained in retention.partitioned_tables(store)} == {None}
        assert {"quic_probe", "dns_answer", "quic_connection"} <= {
            k.table for k in retention.partitioned_tables(store)
        }
        retention.keep(store, "quic_probe", 12)
        assert retention.Retention("quic_probe", 12) in retention.partitioned_tables(store)
        store.execute("OPTIMIZE TABLE quic_probe FINAL")
        assert count(store) == [{"run": "b-young", "n": 3}]
        retention.keep(store, "quic_probe", None)
        retention.keep(store, "quic_probe", None)
        assert retention.Retention("quic_probe", None) in retention.partitioned_tables(store)
    loader.load_files(paths)  # the files still exist
    with open_store() as store:
        assert count(store) == [{"run": "a-old", "n": 3}, {"run": "b-young", "n": 3}]


@pytest.mark.usefixtures("tables")
def test_impossible_values_are_one_sentence() -> None:
    with (
        open_store(write=True) as store,
        pytest.raises(UsageError, match="load_file has no retention by month; tables"),
    ):
        retention.keep(store, "load_file", 3)
    with open_store(write=True) as store:
        for retained in retention.partitioned_tables(store):
            retention.keep(store, retained.table, 6)
        assert {retained.months for retained in retention.partitioned_tables(store)} == {6}
    done = subprocess.run(
        [FIRSTFLIGHT, "db", "retention", "quic_probe", "soon"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (
        2,
        "firstflight: 'soon' is neither a number of months from 1 to 1200 nor `forever`\n",
    )
    done = subprocess.run(
        [FIRSTFLIGHT, "db", "retention", "quic_probe", "24"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "quic_probe: 24 months\n"), done.stderr
