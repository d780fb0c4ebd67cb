"""Handshakes, certificates and responses: every value is stored; a file replaces only its earlier rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from firstflight.errors import InputError
from firstflight.shard import all_of
from schemas import records
from store import open_store
from store.load import loader
from store.load.loader import Loaded, RefusedFile
from store.load.part import ShardPart
from store.load.record_file import RecordFile
from store.tables import retention
from tests.store.rows import DAY_NS, RUN, write

pytestmark = pytest.mark.usefixtures("emptied_tables")

KINDS = ("quic_handshake", "certificate", "http3_response")
STAMP = {"run": RUN, "vantage": "hamburg", "repetition": 1, "tool_version": "0.1.0+test"}
ROWS: dict[str, dict[str, Any]] = {
    "quic_handshake": {
        "domain": "a.example",
        "ip": "2001:DB8::0:1",  # as given, not in canonical form
        "port": 443,
        "outcome": "done",
        "stage": "response",
        "sent_at": DAY_NS + 987_654_321,
        "retry": False,
        "hello_retry": True,
        "first_answer": "coalesced",
        "ack_us": 24_000,
        "sh_us": 24_000,
        "ack_to_sh_us": 0,
        "rtt_samples": 3,
        "bytes_sent": 2_600,
        "bytes_received": 5_200,
        "datagrams_sent": 4,
        "datagrams_received": 6,
        "bytes_first_flight": 3_600,
        "datagrams_first_flight": 3,
        "bytes_sent_unvalidated": 1_252,
        "bytes_received_unvalidated": 3_600,
        "retransmissions": 0,
        "discarded": 0,
        "after_close": 1,
        "transport_parameters": '[{"id": "0x01", "name": "max_idle_timeout", "value": 30000}]',
        "group": "x25519",
        "max_datagram_frame_size": 2**62 - 1,
        "verified": False,
        "verify_error": "expired",
        "http": "response",
        "ruleset": "0123456789ab",
    },
    "certificate": {
        "sha256": "ab" * 32,
        "position": 0,
        "subject": "CN=a.example",
        "issuer": "CN=lab",
        "sans": '["a.example"]',
        "serial": "01",
        "key_algorithm": "ec_p256",
        "signature_algorithm": "ecdsa_sha256",
        "is_ca": False,
        "der_bytes": 289,
        "not_before": -1,  # a nanosecond before 1970
        "not_after": 2**63 - 1,
    },
    "http3_response": {
        "domain": "a.example",
        "ip": "2001:DB8::0:1",
        "port": 443,
        "sent_at": DAY_NS + 987_654_321,
        "status": 200,
        "headers": '[["server", "lab"]]',
        "header_bytes": 38,
        "goaway": False,
    },
}


def row(kind: str, **changes: Any) -> dict[str, Any]:
    columns = records.load(kind).file_columns
    unset: dict[str, Any] = {
        column.name: [] if column.type.startswith("list<") else None for column in columns
    }
    return unset | STAMP | ROWS[kind] | changes


def ask(query: str) -> list[dict[str, Any]]:
    with open_store() as store:
        return store.rows(query)


def load(path: Path) -> str:
    (result,) = loader.load_files([path])
    assert isinstance(result, Loaded)
    return result.action


@pytest.mark.parametrize("kind", KINDS)
def test_every_value_arrives_as_it_was(tmp_path: Path, kind: str) -> None:
    given = row(kind)
    assert load(write(tmp_path / f"{kind}.parquet", [given], kind)) == "loaded"
    (stored,) = ask(f"SELECT * FROM {kind}")
    described = records.load(kind)
    assert set(stored) == {column.name for column in described.columns}
    for column in described.file_columns:
        if column.is_instant:
            known = given[column.name] is not None
            assert stored[column.name] == ("2026-11-20 06:00:00.987654321" if known else None)
        else:
            assert stored[column.name] == given[column.name], column.name


def test_day_and_family_come_from_the_row_or_the_run(tmp_path: Path) -> None:
    unsent = {"outcome": "blocked", "stage": None, "sent_at": None, "ip": "198.18.48.1"}
    rows = [row("quic_handshake"), row("quic_handshake", domain="b.example", **unsent)]
    rows.append(row("quic_handshake", run="imported", domain="c.example", **unsent))
    load(write(tmp_path / "quic_handshake.parquet", rows, "quic_handshake"))
    found = ask("SELECT toString(day) AS d, family, group FROM quic_handshake ORDER BY domain")
    assert found == [
        {"d": "2026-11-20", "family": 6, "group": "x25519"},
        {"d": "2026-11-20", "family": 4, "group": "x25519"},
        {"d": "1970-01-01", "family": 4, "group": "x25519"},
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_only_one_repetition_is_replaced(tmp_path: Path, kind: str) -> None:
    first = write(tmp_path / "1" / f"{kind}.parquet", [row(kind)], kind)
    other = write(tmp_path / "2" / f"{kind}.parquet", [row(kind, repetition=2)], kind)
    assert [load(path) for path in (first, other, first)] == ["loaded", "loaded", "unchanged"]
    write(first, [row(kind), row(kind)], kind)
    assert [load(path) for path in (first, other)] == ["replaced", "unchanged"]
    counted = ask(f"SELECT repetition, count() AS n FROM {kind} GROUP BY repetition ORDER BY repetition")
    assert counted == [{"repetition": 1, "n": 2}, {"repetition": 2, "n": 1}]


def test_shards_that_saw_the_same_certificate_both_have_it(tmp_path: Path) -> None:
    """Their files are equal byte for byte."""
    path = write(tmp_path / "certificate.parquet", [row("certificate")], "certificate")
    with open_store(write=True) as store:
        for shard in all_of(2):
            name = f"{RUN}/hamburg/1/{shard.folder}/"
            filled = {"source_file": f"{name}handshake/certificate.parquet"}
            found = loader.load_one(store, RecordFile(path, filled, ShardPart(shard, name)))
            assert (found.action, found.in_store) == ("loaded", 1)
        assert store.rows("SELECT count() AS n, uniqExact(source_file) AS f FROM certificate") == [
            {"n": 2, "f": 2}
        ]


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        ("quic_handshake", {"outcome": "iack"}, "outcome is not one of done"),
        ("quic_handshake", {"stage": "settings"}, "stage is not one of sent"),
        ("quic_handshake", {"http": "ok"}, "http is not one of response"),
        ("quic_handshake", {"ack_to_sh_us": 1}, "ack_to_sh_us is not sh_us - ack_us"),
    ],
)
def test_rows_that_contradict_their_kind_are_refused(
    tmp_path: Path, kind: str, change: dict[str, Any], message: str
) -> None:
    (result,) = loader.load_files([write(tmp_path / f"{kind}.parquet", [row(kind, **change)], kind)])
    assert isinstance(result, RefusedFile)
    assert isinstance(result.error, InputError)
    assert message in str(result.error)


def test_all_three_are_kept_by_month(tmp_path: Path) -> None:
    old = {"run": "20200101T000000Z-a1b2c3"}
    for kind in KINDS:
        aged = old if kind == "certificate" else old | {"sent_at": 1_577_836_800 * 10**9}
        load(write(tmp_path / f"{kind}.parquet", [row(kind), row(kind, **aged)], kind))
    with open_store(write=True) as store:
        assert set(KINDS) <= {retained.table for retained in retention.partitioned_tables(store)}
        for kind in KINDS:
            retention.keep(store, kind, 36)
            store.execute(f"OPTIMIZE TABLE {kind} FINAL")
            assert store.rows(f"SELECT run FROM {kind}") == [{"run": RUN}], kind
