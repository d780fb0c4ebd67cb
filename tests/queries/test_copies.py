"""Copies of runs inside the engine, for measurements of large stores."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.storing.store_copies import Copy, copies, multiply
from store import open_store
from store.load import loader
from tests.store.rows import RUN, probe, write


def test_copies_are_in_separate_earlier_months() -> None:
    runs = ["20260107T060000Z-000000", "20260206T060000Z-000001"]
    made = list(copies(runs, 3))
    assert [(copy.of_run, copy.days) for copy in made] == [
        ("20251208T060000Z-000001", 60),
        ("20251108T060000Z-000000", 60),
        ("20251009T060000Z-000001", 120),
        ("20250909T060000Z-000000", 120),
    ]
    assert list(copies(runs, 1)) == []
    with pytest.raises(ValueError, match="does not match"):
        list(copies(["run of another kind"], 2))


def test_columns_of_a_copy_are_those_of_the_run_but_for_its_id_and_time() -> None:
    copy = Copy("a", "b", days=30)
    for column, kind, expected in [
        ("run", "LowCardinality(String)", "replaceOne(run, 'a', 'b')"),
        ("capture_file", "LowCardinality(Nullable(String))", "replaceOne(capture_file, 'a', 'b')"),
        ("day", "Date", "day - INTERVAL 30 DAY"),
        ("sent_at", "Nullable(DateTime64(9, 'UTC'))", "sent_at - INTERVAL 30 DAY"),
        ("ack_us", "Nullable(Int64)", "ack_us"),
        ("domain", "String", "domain"),
    ]:
        assert copy.expression(column, kind) == expected
    assert Copy("a", "a", number=2).expression("domain", "String") == "concat('c2-', domain)"
    assert Copy("a", "a", number=2).expression("day", "Date") == "day"


@pytest.mark.usefixtures("emptied_tables")
@pytest.mark.parametrize("names", [False, True])
def test_a_store_has_each_probe_as_often_as_requested(tmp_path: Path, names: bool) -> None:
    """Rows, roll-ups and query results are the same as if the copies had been loaded."""
    rows = [
        probe(),
        probe("coalesced", domain="b.example", ip="10.1.2.3"),
        probe("iack", domain="c.example", ip="2001:db8::3"),
        probe("blocked", repetition=2, domain="b.example"),
    ]
    for repetition in (1, 2):
        path = tmp_path / RUN / "hamburg" / str(repetition) / "quic_probe.parquet"
        write(path, [row for row in rows if row["repetition"] == repetition], "quic_probe")
        loader.load_files([path])
    with open_store(write=True) as store:
        assert multiply(store, 3, names=names) == 12
        assert store.rows("SELECT * FROM unit_not_rolled_up") == []
        (found,) = store.rows(
            "SELECT uniqExact(run) AS runs, uniqExact(domain) AS names, uniqExact(ip) AS ips, "
            "uniqExact(day) AS days, countIf(outcome = 'iack') AS iack FROM quic_probe"
        )
        (rolled_up,) = store.rows("SELECT sum(probes) AS probes, sum(iack) AS iack FROM probe_day_all")
        (units,) = store.rows("SELECT sum(names) AS names FROM probe_unit_all WHERE repetition = 1")
    assert found["iack"] == rolled_up["iack"] == 6
    assert (rolled_up["probes"], units["names"]) == (12, 9)
    if names:
        # An address outside the ranges of the bench's rows stays.
        assert found == {"runs": 1, "names": 9, "ips": 7, "days": 1, "iack": 6}
    else:
        assert found == {"runs": 3, "names": 3, "ips": 3, "days": 3, "iack": 6}
