"""Tables 1 and 2 of the ANRW paper on hand-made rows, with shares computed by hand."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from firstflight.errors import UsageError
from reports import chosen_run
from reports.downloads import tables
from store import open_store
from store.load import loader
from tests.store.rows import DAY_NS, RUN, download, write

pytestmark = pytest.mark.usefixtures("emptied_tables")

BINS = [
    "below_05",
    "from_05",
    "from_06",
    "from_07",
    "from_08",
    "from_09",
    "from_10",
    "from_11",
    "from_12",
    "from_13",
    "from_15",
    "from_20",
]


def load(tmp_path: Path, rows: list[dict[str, Any]]) -> None:
    """Load rows, a file for each vantage point and repetition, as stages write them."""
    units = {(row["vantage"], row["repetition"]) for row in rows}
    paths = []
    for vantage, repetition in sorted(units):
        of_unit = [row for row in rows if (row["vantage"], row["repetition"]) == (vantage, repetition)]
        path = tmp_path / vantage / str(repetition) / "download.parquet"
        paths.append(write(path, of_unit, "download"))
    loader.load_files(paths)


def pair(name: str, ratio: float, **changes: Any) -> list[dict[str, Any]]:
    """A run of downloads in which `ws14` has `ratio` times the throughput of `bl`."""
    base = {"domain": f"{name}.example"} | changes
    return [
        download(set="bl", anrw_throughput_bps=1_000_000, **base),
        download(set="ws14", anrw_throughput_bps=round(1_000_000 * ratio), **base),
    ]


@pytest.mark.parametrize(
    ("ratio", "at"),
    [
        (0.499999, 0),
        (0.5, 1),
        (0.599999, 1),
        (0.6, 2),
        (0.7, 3),
        (0.8, 4),
        (0.9, 5),
        (0.999999, 5),
        (1.0, 6),
        (1.1, 7),
        (1.2, 8),
        (1.299999, 8),
        (1.3, 9),
        (1.5, 10),
        (1.999999, 10),
        (2.0, 11),
        (40.0, 11),
    ],
)
def test_bins_are_half_open(tmp_path: Path, ratio: float, at: int) -> None:
    load(tmp_path, pair("a", ratio))
    with open_store() as store:
        row = store.rows(f"SELECT * FROM anrw_table2 WHERE set = 'ws14' AND run = '{RUN}'")[0]
    assert [name for name in BINS if row[name]] == [BINS[at]]
    assert (row["versus"], row["pairs"], row["faster"]) == ("bl", 1, float(ratio > 1))


def test_only_pairs_of_one_run_that_both_succeeded_with_one_length(tmp_path: Path) -> None:
    rows = [
        *pair("a", 2.0),
        *pair("b", 0.5),
        *pair("c", 1.0),
        *pair("a", 1.25, repetition=2),
        *pair("limited", 3.0, client_limited=True),
        *pair("unknown", 1.0, client_limited=None),
        download(set="bl", domain="failed.example", anrw_throughput_bps=1),
        download(set="ws14", domain="failed.example", outcome="timeout", anrw_throughput_bps=9),
        download(set="bl", domain="length.example", anrw_throughput_bps=1, body_bytes=10),
        download(set="ws14", domain="length.example", anrw_throughput_bps=9, body_bytes=11),
        download(set="bl", domain="apart.example", anrw_throughput_bps=1),
        download(set="ws14", domain="apart.example", anrw_throughput_bps=9, vantage="hong_kong"),
        download(set="bl", domain="none.example", anrw_throughput_bps=1),
        download(set="ws14", domain="none.example", anrw_throughput_bps=None),
    ]
    load(tmp_path, rows)
    with open_store() as store:
        found = store.rows(
            "SELECT set, versus, pairs, domains, limited, faster, from_20, from_12, from_10, from_05 "
            "FROM anrw_table2 ORDER BY set"
        )
    assert [list(row.values()) for row in found] == [
        ["bl", "ws14", 5, 4, 1, 0.2, 0.2, 0, 0.4, 0.2],
        ["ws14", "bl", 5, 4, 1, 0.4, 0.2, 0.2, 0.4, 0.2],
    ]


def test_each_part_of_table2_has_its_target_set(tmp_path: Path) -> None:
    """Pairs of TCP sets are from the TCP target set, pairs with a QUIC stack from the QUIC target set."""
    rows = []
    for name in ("tcp", "quic", "both"):
        for repetition in range(1, {"tcp": 2, "quic": 3, "both": 5}[name]):
            base = {"domain": f"{name}.example", "target_set": name, "repetition": repetition}
            rows += pair(name, 2.0, **base)
            rows.append(download(set="quiche", client="quiche", anrw_throughput_bps=500_000, **base))
    load(tmp_path, rows)
    with open_store() as store:
        found = store.rows("SELECT set, versus, pairs, domains FROM anrw_table2")
        first = store.rows("SELECT target_set, domains FROM anrw_table1 WHERE cdn = 'Total'")
    pairs = {(row["set"], row["versus"]): (row["pairs"], row["domains"]) for row in found}
    of_tcp, of_quic = (1 + 4, 2), (2 + 4, 2)
    assert pairs == {
        (one, other): of_quic if "quiche" in (one, other) else of_tcp
        for one, other in permutations(("bl", "ws14", "quiche"), 2)
    }
    assert {row["target_set"]: row["domains"] for row in first} == {"tcp": 2, "quic": 2}


def test_names_of_each_cdn(tmp_path: Path) -> None:
    rows = [
        download(domain="a.example", set="bl"),
        download(domain="a.example", set="ws14"),
        download(domain="a.example", set="quiche", client="quiche", http_version="3"),
        download(domain="b.example", set="bl", outcome="stopped_limit"),
        download(domain="c.example", set="bl", cdn=None),
        download(domain="d.example", set="bl", outcome="short"),
        download(domain="e.example", set="warmup"),
        download(domain="f.example", set="libcurl", http_version="3", cdn="Google"),
        download(domain="g.example", set="bl", repetition=2),
    ]
    load(tmp_path, rows)
    with open_store() as store:
        found = store.rows("SELECT target_set, cdn, domains FROM anrw_table1 ORDER BY target_set, cdn")
    assert [list(row.values()) for row in found] == [
        ["quic", "Cloudflare", 1],
        ["quic", "Google", 1],
        ["quic", "Total", 2],
        ["tcp", "Cloudflare", 2],
        ["tcp", "Others", 1],
        ["tcp", "Total", 3],
    ]


def test_tables_show_the_published_values_too(tmp_path: Path) -> None:
    load(tmp_path, [*pair("a", 1.25), *pair("b", 0.75, cdn="Google"), *pair("c", 4.0, client_limited=True)])
    with open_store() as store:
        ours = tables.collect(store, RUN)
    found = {(value.table, value.row, value.column): value.value for value in ours}
    assert found["1", "hamburg", "Total"] == 3
    assert found["1", "hamburg", "Google"] == 1
    # One of two names is faster: in a quarter of all resamples no name is faster, in a quarter both are.
    expected = {"pairs": 2, "names": 2, "limited": 1, "+": 50, "+low": 0, "+high": 100, "-": 50}
    expected |= {"0.7-0.8": 50, "1.2-1.3": 50}
    assert {column: found["2", "WS14/BL", column] for column in expected} == expected
    assert found["2", "WS14/BL", ">1.2"] == 50
    assert found["2", "WS14/BL", ">2"] == 0
    shown = tables.text([*ours, *tables.published()]).splitlines()
    line = next(line for line in shown if line.startswith("WS14/BL"))
    assert line.split()[:9] == ["WS14/BL", "ours", "2", "2", "1", "50.0", "0.0", "100.0", "50.0"]
    later = shown[shown.index(line) + 1].split()
    assert later[:5] == ["WS14/BL", "with", "warm-ups", "90.3", "9.7"]
    assert any(line.split()[:4] == ["MUC_Q", "ANRW", "2023", "511"] for line in shown)


def test_intervals_are_over_names(tmp_path: Path) -> None:
    """Ten pairs of the same name are one observation: the interval is the same as with a single pair."""
    often = [row for number in range(1, 11) for row in pair("a", 2.0, repetition=number)]
    load(tmp_path, [*often, *pair("b", 0.5)])
    with open_store() as store:
        found = {
            (value.row, value.column): value.value
            for value in tables.collect(store, RUN)
            if value.table == "2"
        }
    assert found["WS14/BL", "+"] == pytest.approx(90.9)
    assert (found["WS14/BL", "+low"], found["WS14/BL", "+high"]) == (0, 100)


def test_the_newest_run_is_the_newest_with_downloads(tmp_path: Path) -> None:
    later = "20261121T060000Z-a1b2c3"
    paths = [
        write(tmp_path / run / "download.parquet", pair("a", 2.0, run=run, started_at=at), "download")
        for at, run in ((DAY_NS, RUN), (DAY_NS + 1, later))
    ]
    loader.load_files(paths)
    with open_store() as store:
        assert chosen_run.choose(store, "newest", chosen_run.DOWNLOADS).run == later
        assert chosen_run.choose(store, RUN, chosen_run.DOWNLOADS).run == RUN


def test_a_store_without_downloads() -> None:
    with open_store() as store, pytest.raises(UsageError, match="has no download: run a campaign with"):
        chosen_run.choose(store, "newest", chosen_run.DOWNLOADS)


def test_a_run_without_downloads(tmp_path: Path) -> None:
    load(tmp_path, [download(outcome="timeout")])
    with open_store() as store, pytest.raises(UsageError, match="has no successful download in the store"):
        tables.collect(store, RUN)


def test_published_values_are_those_of_the_editions() -> None:
    """Each distribution of Table 2 adds up, as far as it is printed; each Total of Table 1 is the sum."""
    rows: dict[tuple[str, str, str], dict[str, float]] = {}
    for value in tables.published():
        assert value.value is not None
        rows.setdefault((value.edition, value.table, value.row), {})[value.column] = value.value
    assert len(rows) == 12 + 16
    for (_, table, _), values in rows.items():
        if table == "1":
            # In a row of the paper, Total differs by one from the sum over the groups.
            assert abs(values.pop("Total") - sum(values.values())) <= 1
        else:
            assert values.pop("+") + values.pop("-") == pytest.approx(100, abs=0.11)
            assert sum(values.values()) <= 100.5
