"""All measurements for a name in the same answer, on hand-made rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reports import query
from store import open_store
from store.load import loader
from tests.store.rows import DAY_NS, download, handshake, probe, tcp_option, write

pytestmark = pytest.mark.usefixtures("emptied_tables")

DAY = "2026-11-20"
HOUR = 3600 * 10**9
NEXT = {"repetition": 2, "sent_at": DAY_NS + 24 * HOUR}


def load(tmp_path: Path, **rows_of: list[dict[str, Any]]) -> None:
    """Load rows by kind, a file for each run, vantage point and repetition, as stages write them."""
    paths = []
    for kind, rows in rows_of.items():
        units = {(row["run"], row["vantage"], row["repetition"]) for row in rows}
        for unit in sorted(units):
            of_unit = [row for row in rows if (row["run"], row["vantage"], row["repetition"]) == unit]
            path = tmp_path / unit[0] / unit[1] / str(unit[2]) / f"{kind}.parquet"
            paths.append(write(path, of_unit, kind))
    assert all(isinstance(result, loader.Loaded) for result in loader.load_files(paths))


def ask(columns: str, **given: str) -> list[list[Any]]:
    with open_store() as store:
        rows = query.rows(store, "name_measures", given)
    return [[row[column] for column in columns.split()] for row in rows]


def test_all_measures_of_a_day_are_one_row(tmp_path: Path) -> None:
    """The row of the whole, of kinds that were loaded from two runs."""
    load(
        tmp_path,
        quic_probe=[
            probe(),
            probe("timeout", repetition=2, sent_at=DAY_NS + HOUR),
            probe("coalesced", run="20261120T000000Z-watch0", slot=1, sent_at=DAY_NS),
        ],
        quic_handshake=[
            handshake(cdn="Cloudflare", first_answer="coalesced", handshake_us=41_000, stack="quiche"),
            handshake(repetition=2, sent_at=DAY_NS + HOUR, outcome="timeout", handshake_us=9),
        ],
        tcp_option=[
            tcp_option(run="20261120T050000Z-other0", ecn=None, sack=False),
            tcp_option(repetition=2, sent_at=DAY_NS + HOUR, ecn=False, wscale=9, timestamps=False, mss=1400),
        ],
        download=[
            download(set="bl", download_throughput_bps=4_000_000),
            download(set="bl", repetition=2, outcome="stopped_limit", download_throughput_bps=1_000_000),
            download(set="bl", repetition=3, download_throughput_bps=9_000_000, client_limited=True),
            download(set="bl", repetition=4, outcome="short", download_throughput_bps=9_000_000),
            download(set="bl", repetition=5, download_throughput_bps=None),
            download(set="quiche", download_throughput_bps=7_000_000, client_limited=None),
        ],
    )
    with open_store() as store:
        (row,) = query.rows(store, "name_measures")
    assert {name: value for name, value in row.items() if value is not None} == {
        "domain": "a.example",
        "ip": "198.18.48.1",
        "vantage": "hamburg",
        "day": DAY,
        "cdn": "Cloudflare",
        "probes": 2,
        "first_answer": "iack",
        "ack_us": 20_000,
        "ack_to_sh_us": 3_200,
        "handshakes": 2,
        "handshake": "done",
        "handshake_first_answer": "coalesced",
        "handshake_us": 41_000,
        "stack": "quiche",
        "option_answers": 2,
        "ecn": False,
        "sack": True,
        "window_scaling": True,
        "wscale": 9,
        "timestamps": False,
        "mss": 1400,
        "downloads": 3,
        "downloads_limited": 1,
        "bl_bps": 2_500_000,
        "quiche_bps": 7_000_000,
    }
    assert list(row) == list(query.load("name_measures").columns)


def test_a_row_for_each_name_address_vantage_point_and_day(tmp_path: Path) -> None:
    load(
        tmp_path,
        quic_probe=[
            probe(),
            probe("iack", attempts=2, domain="b.example", cdn=None),
            probe("blocked", domain="c.example"),
            probe("timeout", **NEXT),
            probe("coalesced", ip="198.18.48.2"),
        ],
        quic_handshake=[handshake(domain="d.example", outcome="refused", cdn="Google")],
        tcp_option=[
            tcp_option(domain="b.example", cdn="Amazon"),
            tcp_option(domain="c.example", outcome="blocked", sent_at=None, ecn=None),
            tcp_option(
                domain="e.example", outcome="timeout", cdn=None, ecn=None, sack=None, window_scaling=None
            ),
            tcp_option(**NEXT),
        ],
        download=[
            download(domain="f.example", cdn="Others", set="all14", download_throughput_bps=5),
            download(domain="g.example", outcome="no_address", ip=None, started_at=None),
            download(vantage="hong_kong", set="aioquic", download_throughput_bps=6),
            download(domain="h.example", client_limited=True, download_throughput_bps=6),
        ],
    )
    columns = "domain ip vantage day cdn probes first_answer ack_us handshake option_answers ecn downloads"
    first, second, vantage = "198.18.48.1", "198.18.48.2", "hamburg"
    cloudflare, amazon = "Cloudflare", "Amazon"
    rows = [
        ["a.example", first, vantage, DAY, cloudflare, 1, "iack", 20_000, None, 0, None, 0],
        ["a.example", first, vantage, "2026-11-21", cloudflare, 1, "timeout", None, None, 1, True, 0],
        ["a.example", first, "hong_kong", DAY, cloudflare, 0, None, None, None, 0, None, 1],
        ["a.example", second, vantage, DAY, cloudflare, 1, "coalesced", 24_000, None, 0, None, 0],
        ["b.example", first, vantage, DAY, amazon, 1, "iack", None, None, 1, True, 0],
        ["d.example", first, vantage, DAY, "Google", 0, None, None, "refused", 0, None, 0],
        ["e.example", first, vantage, DAY, None, 0, None, None, None, 0, None, 0],
        ["f.example", first, vantage, DAY, "Others", 0, None, None, None, 0, None, 1],
        ["h.example", first, vantage, DAY, cloudflare, 0, None, None, None, 0, None, 0],
    ]
    assert ask(columns) == rows
    assert ask("all14_bps aioquic_bps downloads_limited") == [
        *[[None, None, 0]] * 2,
        [None, 6, 0],
        *[[None, None, 0]] * 4,
        [5, None, 0],
        [None, None, 1],
    ]
    for given, places in (
        ({"domain": "a.example"}, [0, 1, 2, 3]),
        ({"vantage": "hong_kong"}, [2]),
        ({"cdn": "Amazon"}, [4]),
        ({"since": "2026-11-21"}, [1]),
        ({"until": "2026-11-20", "domain": "a.example"}, [0, 2, 3]),
        ({"with_downloads": "true"}, [2, 7]),
        ({"limit": "2"}, [0, 1]),
    ):
        assert ask(columns, **given) == [rows[place] for place in places], given
