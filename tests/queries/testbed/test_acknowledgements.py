"""Acknowledgements in the store: hand-made rows, with results computed by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reports import query
from store import open_store
from store.load import loader
from tests.store.rows import DAY_NS, download, quic_ack, write

pytestmark = pytest.mark.usefixtures("emptied_tables")

TIMED = {"acks_by_count": 6, "acks_by_timer": 3, "acks_by_reordering": 1, "wait_p50_us": 1500}


def ask(columns: str, **given: str) -> list[list[Any]]:
    with open_store() as store:
        rows = query.rows(store, "acknowledgements", given)
    return [[row[column] for column in columns.split()] for row in rows]


def load(folder: Path, rows: list[dict[str, Any]], downloads: list[dict[str, Any]]) -> None:
    paths = [write(folder / "quic_ack.parquet", rows, "quic_ack")]
    paths.append(write(folder / "download.parquet", downloads, "download"))
    loader.load_files(paths)


def test_acknowledgements_of_downloads_are_grouped_by_client(tmp_path: Path) -> None:
    rows = [
        quic_ack(**TIMED, eliciting_per_ack_after100=10.0),
        quic_ack(
            client_port=40_001, ack_packets=5, peer_eliciting_acked=25, bundled_packets=2, acked_unseen=3
        ),
        # The server's side of the first, which no capture of the client times.
        quic_ack(
            acks_from="server", ack_packets=4, peer_eliciting_acked=4, peer_packets=5, bundled_packets=4
        ),
        # A port that was used again, and a connection of no download.
        quic_ack(client_port=40_000, start_time_ns=DAY_NS + 5),
        # Without keys.
        quic_ack(client_port=40_002, ack_packets=None, peer_packets=None),
    ]
    flows = [
        download(set=name, client_port=port, flow_started_at=DAY_NS, domain=f"{name}.example")
        for name, port in (("quiche", 40_000), ("libcurl", 40_001))
    ]
    load(tmp_path, rows, flows)
    columns = "set acks_from connections packets acks eliciting_per_ack bundled_share unseen"
    assert ask(columns) == [
        ["libcurl", "client", 1, 22, 5, 5, 0.4, 3],
        ["quiche", "client", 1, 22, 10, 2, 0.1, 0],
        ["quiche", "server", 1, 5, 4, 1, 1, 0],
        [None, "client", 1, 22, 10, 2, 0.1, 0],
    ]
    columns = "set acks_from timed timer_share reordering_share wait_p50_ms first100_p50 after100_p50"
    assert ask(columns)[1] == ["quiche", "client", 10, 0.3, 0.1, 1.5, 2, 10]
    assert ask(columns)[0] == ["libcurl", "client", None, None, None, None, 2, None]
    assert ask("ack_bytes_p50 ack_bytes_per_packet")[1] == [61, 25]
    assert ask("set", vantage="elsewhere") == []


def test_rows_of_a_unit_are_replaced(tmp_path: Path) -> None:
    load(tmp_path, [quic_ack(), quic_ack(acks_from="server")], [])
    load(tmp_path, [quic_ack(ack_packets=20)], [])
    assert ask("acks_from acks") == [["client", 20]]
