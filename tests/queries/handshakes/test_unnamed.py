"""Addresses without a name, which a scan found: counts of names and tables by name do not include them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reports import query
from store import open_store
from store.load import loader
from tests.store.rows import handshake, probe, tcp_option, write

pytestmark = pytest.mark.usefixtures("emptied_tables")

# Queries with the column that counts rows.
COUNTS = {
    "cdn_methods": "handshakes",
    "edge_locations": "handshakes",
    "handshake_ack_frequency": "handshakes",
    "handshake_ciphers": "handshakes",
    "handshake_servers": "responses",
    "handshake_stacks": "handshakes",
    "handshake_stages": "handshakes",
    "tcp_options": "answered",
}
HANDSHAKE: dict[str, Any] = {
    "cdn": "Cloudflare",
    "cdn_by_asn": "Cloudflare",
    "edge_location": "HAM",
    "first_answer": "iack",
    "http": "response",
    "server_header": "cloudflare",
    "stack": "quiche",
    "stack_fingerprint": "1,2",
    "transport_parameters": "[]",
}


def test_names_without_unnamed_addresses(tmp_path: Path) -> None:
    unnamed = {"domain": "", "ip": "198.18.48.9"}
    rows = {
        "quic_handshake": [handshake(**HANDSHAKE), handshake(**HANDSHAKE | unnamed)],
        "quic_probe": [probe(), probe(**unnamed, list_id=None, rank=None, address_rank=None)],
        "tcp_option": [tcp_option(), tcp_option(**unnamed)],
    }
    paths = [write(tmp_path / f"{kind}.parquet", of_kind, kind) for kind, of_kind in rows.items()]
    results = loader.load_files(paths)
    assert all(isinstance(result, loader.Loaded) for result in results), results
    with open_store() as store:
        counted = {}
        for name, column in COUNTS.items():
            (row,) = query.rows(store, name, {})
            counted[name] = (row[column], row["names"])
        assert counted == dict.fromkeys(COUNTS, (2, 1))
        (shares,) = query.rows(store, "cdn_shares", {})
        assert shares["names_by_asn"] == 1
        asked = {row["counted_by"]: row["asked"] for row in query.rows(store, "tcp_option_shares", {})}
        assert asked == {"names": 1, "addresses": 2}
        for name in ("iack_verdict", "name_measures"):
            assert [row["domain"] for row in query.rows(store, name, {})] == ["a.example"], name
        assert store.rows("SELECT handshakes, names FROM cdn_methods") == [{"handshakes": 2, "names": 1}]
