"""Which rows an answer is of: newest day, newest run, packets of QUIC; and settings that a reader lacks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reports import query
from store import Store, open_store
from store.load import loader
from tests.queries.conftest import DAY_1, SECOND, iack
from tests.queries.interfaces.test_named import table
from tests.store.rows import answer, download, handshake, probe, tcp_option, write

pytestmark = pytest.mark.usefixtures("emptied_tables")

DAY_NS = 86_400 * SECOND


def load(folder: Path, **files: list[dict[str, Any]]) -> None:
    results = loader.load_files(
        [write(folder / f"{kind}.parquet", rows, kind) for kind, rows in files.items()]
    )
    assert all(isinstance(result, loader.Loaded) for result in results), results


@pytest.mark.parametrize(
    "newer",
    [
        {"address_rank": None, "slot": 1, "domain": "watched.example"},
        {"ip": "2001:db8:48::1"},
        {"address_rank": 1, "ip": "198.18.48.9"},
        {"cdn": None, "asn": None},
    ],
)
def test_changes_are_of_the_newest_day_that_counts(tmp_path: Path, newer: dict[str, Any]) -> None:
    rows = [
        iack(20_000, 3_000, sent_at=DAY_1),
        probe("coalesced", sent_at=DAY_1 + DAY_NS, domain="b.example"),
        iack(20_000, 3_000, **{"sent_at": DAY_1 + 2 * DAY_NS} | newer),
    ]
    load(tmp_path, quic_probe=rows)
    with open_store() as store:
        columns = "cdn newest_day counted iack_share share_day_before"
        assert table(store, "share_changes", columns) == [["Cloudflare", "2026-11-21", 1, 0, 1]]


def test_the_newest_run_is_one_of_the_kind_that_is_asked(tmp_path: Path) -> None:
    scan, survey, downloads = (f"2026112{day}T060000Z-{day:06}" for day in (2, 4, 3))
    load(
        tmp_path,
        quic_probe=[probe("iack", run=scan, sent_at=DAY_1)],
        tcp_option=[tcp_option(run=survey), tcp_option(run=scan, domain="b.example", outcome="timeout")],
        download=[download(run=downloads)],
    )
    with open_store() as store:
        for name in ("tcp_options", "tcp_option_shares"):
            assert {row["answered"] for row in query.rows(store, name, {"run": "newest"})} == {1}, name
        assert query.rows(store, "anrw_table1", {"run": "newest"})
        assert [row["probes"] for row in query.rows(store, "iack_share", {"run": "newest"})] == [1]


@pytest.mark.parametrize(
    ("changes", "speaks"),
    [
        ({"detail": "no QUIC packet: 7 bytes"}, False),
        ({"detail": "datagram 1: frame 0x99", "server_cid": "ab"}, True),
    ],
)
def test_unauthenticated_answers_do_not_count_as_quic(
    tmp_path: Path, changes: dict[str, Any], speaks: bool
) -> None:
    malformed = probe("malformed", initial_size=1_200, **{"server_cid": None} | changes)
    larger = probe("malformed", initial_size=1_300, server_cid=None, domain="b.example")
    load(
        tmp_path,
        quic_probe=[malformed, larger],
        dns_answer=[answer("a.example", "HTTPS", https_alpn=["h3"], https_priority=1)],
    )
    with open_store() as store:
        assert store.rows("SELECT speaks_quic, promise FROM https_promise") == [
            {"speaks_quic": speaks, "promise": "kept" if speaks else "broken"}
        ]
        assert table(store, "initial_sizes", "size answered") == [[1_200, int(speaks)], [1_300, 0]]
        limits = [[1_200, 1_300]] if speaks else []
        assert table(store, "size_limits", "largest_answered smallest_unanswered") == limits


def test_an_address_without_origin_has_no_cdn(tmp_path: Path) -> None:
    other = {"ip": "198.18.48.9", "address_rank": 1, "cdn": None, "asn": None}
    rows = [iack(20_000, 3_000), iack(20_000, 3_000, slot=1), probe("coalesced", **other)]
    load(tmp_path, quic_probe=rows)
    with open_store() as store:
        assert table(store, "addresses_disagree", "instant waiting cdns") == [
            [["198.18.48.1"], ["198.18.48.9"], ["Cloudflare"]]
        ]


def test_a_name_that_left_its_cdn_has_none(tmp_path: Path) -> None:
    gone = {"cdn": None, "asn": None}
    rows = [
        probe("coalesced", sent_at=DAY_1),
        iack(20_000, 3_000, sent_at=DAY_1 + DAY_NS),
        iack(20_000, 3_000, **{"sent_at": DAY_1 + DAY_NS + SECOND} | gone),
    ]
    load(tmp_path, quic_probe=rows)
    with open_store() as store:
        found = query.rows(store, "changed_behaviour", {"since": "2026-11-21"})
        assert [(row["cdn_before"], row["cdn_since"]) for row in found] == [("Cloudflare", None)]


class _WithoutSettings:
    """A store without firstflight's settings for readers, as with readonly = 1."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.dialect = store.dialect

    def rows(self, sql: str, *given: Any, **more: Any) -> list[dict[str, Any]]:
        return self._store.rows(f"{sql}\nSETTINGS join_use_nulls = 0", *given, **more)


def test_queries_that_join_need_no_settings(tmp_path: Path) -> None:
    listed = [
        {"rank": rank, "domain": f"{name}.example", "list_id": "X6QPN"} for rank, name in ((1, "a"), (2, "b"))
    ]
    folder = tmp_path / "20261120T055900Z-aaaaaa" / "targets"
    folder.mkdir(parents=True)
    (folder.parent / "manifest.json").write_text('{"id": "20261120T055900Z-aaaaaa"}')
    loader.load_files([write(folder / "targets.parquet", listed, "target")])
    load(
        tmp_path,
        quic_probe=[iack(20_000, 3_000, run="20261120T055900Z-aaaaaa")],
        quic_handshake=[handshake(leaf_sha256="aa" * 32)],
    )
    with open_store(write=True) as store:  # a read-only store refuses settings
        for name, columns, expected in (
            ("list_share", ("top", "names_listed", "names_probed"), {(1_000, 2, 1)}),
            (
                "handshake_keys",
                ("key_algorithm", "signature_algorithm", "der_bytes_p50"),
                {(None, None, None)},
            ),
        ):
            for queried_store in (store, _WithoutSettings(store)):
                found = query.rows(queried_store, name)  # type: ignore[arg-type]
                shown = {tuple(row[column] for column in columns) for row in found}
                assert expected <= shown, (name, type(queried_store).__name__, shown)
