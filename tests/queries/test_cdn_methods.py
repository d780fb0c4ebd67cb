"""CDNs by four methods, and watches by edge location, on hand-made rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from firstflight.errors import UsageError
from reports import query
from store import Store, open_store
from store.load import loader
from tests.store.loads.test_handshake_kinds import row
from tests.store.rows import DAY_NS, RUN, write
from tests.watch.test_watch_views import slot

OTHER = "20261127T060000Z-b2c3d4"
SECOND = 10**9
METHODS = "by_asn by_cname by_header by_certificate"


def handshake(name: str, letters: str, **changes: Any) -> dict[str, Any]:
    """Return a row of `name`; `letters` are the four CDNs: C(loudflare), F(astly), O(thers), - for null."""
    words = {"C": "Cloudflare", "F": "Fastly", "O": "Others", "-": None}
    cdns = [words[letter] for letter in letters]
    columns = dict(zip(("cdn_" + method for method in METHODS.split()), cdns, strict=True))
    about = {"domain": f"{name}.example", "ip": "198.18.48.1", "cdn": cdns[0], "server_header": "x"}
    return row("quic_handshake", **columns | about | changes)


def rows() -> list[dict[str, Any]]:
    return [
        handshake("a", "CCCC"),
        handshake("b", "CCCC", edge_location="HAM"),
        handshake("a", "CCCC", ip="2001:db8::1"),
        handshake("c", "COCO"),
        handshake("d", "OOO-"),
        handshake("e", "C---"),
        handshake("f", "CFCO", edge_location="FRA", server_header="cloudflare"),
        handshake("f", "CFCO", sent_at=DAY_NS + 60 * SECOND, vantage="hong_kong", edge_location="HKG"),
        handshake("g", "----"),
        # Incomplete: the certificate may have arrived, but the response has not.
        handshake("h", "CF-F", outcome="timeout", stage="certificate", http=None),
        handshake("f", "FFFF", run=OTHER, sent_at=DAY_NS + 7 * 86_400 * SECOND),
    ]


@pytest.fixture
def known(tables: Path, tmp_path: Path) -> Iterator[Store]:
    assert tables.is_dir()
    given: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for handshake_row in rows():
        given.setdefault((handshake_row["run"], handshake_row["vantage"]), []).append(handshake_row)
    paths = [
        write(tmp_path / run / vantage / "quic_handshake.parquet", part, "quic_handshake")
        for (run, vantage), part in given.items()
    ]
    results = loader.load_files(paths)
    assert all(isinstance(result, loader.Loaded) for result in results), results
    with open_store() as store:
        yield store


def table(store: Store, name: str, columns: str, **given: str) -> list[list[Any]]:
    return [[row[column] for column in columns.split()] for row in query.rows(store, name, given)]


def test_each_handshake_says_whether_its_methods_agree(known: Store) -> None:
    text = f"SELECT domain, {METHODS.replace(' ', ', ')}, agreement FROM handshake_cdn WHERE run = '{RUN}' "
    found = known.rows(text + "AND vantage = 'hamburg' AND family = 4 ORDER BY domain")
    assert [row["agreement"] for row in found] == ["same", "same", "partly", "same", None, "different", None]
    assert [found[3][method] for method in METHODS.split()] == ["Others", "Others", "Others", None]


def test_combinations_are_counted(known: Store) -> None:
    columns = f"{METHODS} agreement handshakes names"
    assert table(known, "cdn_methods", columns, run=RUN, vantage="hamburg") == [
        ["Cloudflare"] * 4 + ["same", 3, 2],
        ["Cloudflare", "Fastly", "Cloudflare", "Others", "different", 1, 1],
        ["Cloudflare", "Others", "Cloudflare", "Others", "partly", 1, 1],
        ["Cloudflare", None, None, None, None, 1, 1],
        ["Others", "Others", "Others", None, "same", 1, 1],
        [None, None, None, None, None, 1, 1],
    ]
    assert table(known, "cdn_methods", "handshakes share", limit="1") == [[3, 0.3]]
    assert table(known, "cdn_methods", "handshakes", cdn="Fastly") == [[2], [1]]
    assert table(known, "cdn_methods", "handshakes", until="2026-11-20", cdn="Fastly") == [[2]]
    # The view is the same for each repetition of a vantage point.
    text = f"SELECT {columns.replace(' ', ', ')} FROM cdn_methods WHERE run = '{RUN}' AND vantage = 'hamburg'"
    seen = [list(row.values()) for row in known.rows(text)]
    assert seen == table(known, "cdn_methods", columns, run=RUN, vantage="hamburg")


def test_names_are_listed_with_what_differs(known: Store) -> None:
    assert query.rows(known, "cdn_disagreements", {}) == [
        {
            "domain": "f.example",
            "ip": "198.18.48.1",
            "cdn_by_asn": "Cloudflare",
            "cdn_by_cname": "Fastly",
            "cdn_by_header": "Cloudflare",
            "cdn_by_certificate": "Others",
            "agreement": "different",
            "server_header": "x",
            "edge_location": "HKG",
            "vantages": ["hamburg", "hong_kong"],
            "handshakes": 2,
            "last_at": "2026-11-20 06:01:00.000000000",
        }
    ]
    partly = table(known, "cdn_disagreements", "domain vantages", agreement="partly")
    assert partly == [["c.example", ["hamburg"]]]
    agreeing = table(known, "cdn_disagreements", "domain ip", agreement="same", run=RUN)
    assert [name for name, _ in agreeing] == ["a.example", "a.example", "b.example", "d.example"]
    assert query.rows(known, "cdn_disagreements", {"cdn": "Amazon"}) == []
    assert query.rows(known, "cdn_disagreements", {"vantage": "nowhere"}) == []
    with pytest.raises(UsageError):
        query.rows(known, "cdn_disagreements", {"limit": "x"})


def test_shares_by_each_method(known: Store) -> None:
    methods = [method.removeprefix("by_") for method in METHODS.split()]
    names, shares = (" ".join(f"{value}_by_{method}" for method in methods) for value in ("names", "share"))
    given = {"run": RUN, "vantage": "hamburg"}
    assert table(known, "cdn_shares", f"cdn {names}", **given) == [
        ["Cloudflare", 5, 2, 4, 2],  # by AS a, b, c, e and f
        ["Fastly", 0, 1, 0, 0],
        ["Others", 1, 2, 1, 2],
    ]
    # Shares of the handshakes with a known result: 7 (a has two addresses), 6, 6 and 5.
    assert table(known, "cdn_shares", f"cdn {shares}", **given) == [
        ["Cloudflare", pytest.approx(6 / 7), 3 / 6, pytest.approx(5 / 6), 3 / 5],
        ["Fastly", 0, pytest.approx(1 / 6), 0, 0],
        ["Others", pytest.approx(1 / 7), pytest.approx(2 / 6), pytest.approx(1 / 6), 2 / 5],
    ]
    assert table(known, "cdn_shares", f"cdn {names}", cdn="Fastly", until="2026-11-20") == [
        ["Cloudflare", 1, 0, 1, 0],
        ["Fastly", 0, 1, 0, 0],
        ["Others", 0, 0, 0, 1],
    ]


@pytest.mark.usefixtures("tables")
def test_a_watch_knows_locations_by_name_address_or_prefix(tmp_path: Path) -> None:
    def at(name: str, ip: str, location: str | None, seconds: int, **changes: Any) -> dict[str, Any]:
        about = {"ip": ip, "edge_location": location, "sent_at": DAY_NS + seconds * SECOND}
        return handshake(name, "CCCC", **about | changes)

    handshakes = [
        at("a", "198.18.48.1", "HAM", 1),
        at("a", "198.18.48.1", "FRA", 3),
        at("a", "198.18.48.1", None, 4),  # without a location
        at("a", "198.18.48.1", "LGA", 2),
        at("z", "198.18.48.1", "AMS", 9),
        at("z", "198.18.48.77", "CDG", 10),
        at("z", "2001:DB8:7:0::1", "VIE", 5),
        at("a", "198.18.49.1", "SIN", 5, vantage="hong_kong"),
    ]
    slots = [
        slot(0, "iack", 10, 20),  # by domain and address: the newest
        slot(1, "iack", 30, 40, domain="b.example"),  # by address: the newest of any name
        slot(2, "iack", 50, 60, domain="b.example", ip="198.18.48.9"),  # by prefix
        slot(3, "iack", 70, 80, domain="b.example", ip="198.18.49.1"),  # another vantage point's
        slot(4, "iack", 90, 99, domain="b.example", ip="2001:db8:7:1::9", family=6),
        slot(5, "iack", 90, 99, domain="b.example", ip="2001:db8:8::9", family=6),
        slot(6, "timeout", None, None),
    ]
    # A handshake has one row for a name and address in a repetition: these are of several.
    parts = [handshake_row | {"repetition": 1 + number} for number, handshake_row in enumerate(handshakes)]
    paths = [
        write(
            tmp_path / str(handshake_row["repetition"]) / "quic_handshake.parquet",
            [handshake_row],
            "quic_handshake",
        )
        for handshake_row in parts
    ]
    paths.append(write(tmp_path / "watch_slot.parquet", slots, "watch_slot"))
    assert all(isinstance(result, loader.Loaded) for result in loader.load_files(paths))
    with open_store() as store:
        found = store.rows("SELECT ip, edge_location, edge_by FROM watch_answer_edge ORDER BY planned_at")
        assert [list(row.values()) for row in found] == [
            ["198.18.48.1", "FRA", "name"],
            ["198.18.48.1", "AMS", "address"],
            ["198.18.48.9", "CDG", "prefix"],
            ["198.18.49.1", None, None],
            ["2001:db8:7:1::9", "VIE", "prefix"],
            ["2001:db8:8::9", None, None],
        ]
        columns = "edge_location edge_by_name edge_by_address edge_by_prefix probes ack_us_p50 first_answer"
        assert table(store, "watch_hourly_by_edge", columns) == [
            ["AMS", 0, 1, 0, 1, 30, "iack"],
            ["CDG", 0, 0, 1, 1, 50, "iack"],
            ["FRA", 1, 0, 0, 1, 10, "iack"],
            ["VIE", 0, 0, 1, 1, 90, "iack"],
            [None, 0, 0, 0, 2, 80, "iack"],
        ]
        assert table(store, "watch_hourly_by_edge", "probes", edge="FRA") == [[1]]
        assert table(store, "watch_hourly_by_edge", "probes", edge="SIN") == []
        # By hour, without the location, every answered probe counts once.
        assert sum(row["probes"] for row in query.rows(store, "watch_hourly", {})) == 6
