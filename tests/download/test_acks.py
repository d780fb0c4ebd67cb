"""Acknowledgements of downloads over QUIC: from the captures of real downloads to the store."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from downloader.results import acks, rows
from reports import query
from schemas import records
from store import open_store
from store.load import loader
from tests import stores
from tests.download.world import SERVER_V4, DownloadWorld

STAMPS = {"run": "20261120T063905Z-a1b2c3", "vantage": "here", "repetition": 1, "tool_version": "0.1.0+test"}


def test_both_sides_of_a_real_download_reach_the_store(
    world: DownloadWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "captures"
    found, done = world.download(tmp_path, [("one", SERVER_V4)], "bl,quiche", "--capture", folder)
    assert done.returncode == 0, done.stderr
    (download,) = [row for row in found if row["set"] == "quiche"]
    captures = acks.captures_of_quic(rows.captures(folder))
    assert [path.name for path in captures] == ["quiche.pcap"]
    out = tmp_path / "quic_ack.parquet"
    acks.write(captures, rows.key_logs(folder), out, lambda path: f"RUN/{path.name}", STAMPS)
    table = pq.read_table(out)
    assert table.schema.equals(records.load("quic_ack").arrow_schema())
    # The capture also has the connection of the HEAD request over HTTP/3.
    all_rows = table.to_pylist()
    flow_rows = [row for row in all_rows if row["start_time_ns"] == download["flow_started_at"]]
    row_of = {row["acks_from"]: row for row in flow_rows}
    assert len(flow_rows) == 2 and set(row_of) == {"client", "server"}
    client = row_of["client"]
    assert client["source_file"] == "RUN/quiche.pcap" and client["run"] == STAMPS["run"]
    assert client["client_port"] == download["client_port"]
    # A megabyte is some 800 packets, and most are acknowledged by the client.
    assert 500 < client["peer_eliciting_acked"] <= client["peer_eliciting"]
    assert 0 < client["ack_packets"] < client["peer_eliciting_acked"]
    assert client["bytes_stream"] < client["bytes_ack"] < row_of["server"]["bytes_stream"]
    monkeypatch.setenv("FIRSTFLIGHT_STORE", f"chdb:{tmp_path / 'store'}")
    stores.with_tables(tmp_path / "store")
    loader.load_files([out])
    with open_store() as store:
        answer_of = {row["acks_from"]: row for row in query.rows(store, "acknowledgements", {})}
    clients = [row for row in all_rows if row["acks_from"] == "client"]
    acks_sent, acked = (sum(row[name] for row in clients) for name in ("ack_packets", "peer_eliciting_acked"))
    assert answer_of["client"]["acks"] == acks_sent
    assert answer_of["client"]["eliciting_per_ack"] == pytest.approx(acked / acks_sent, rel=1e-12)


def test_captures_of_tcp_sets_are_left_out(tmp_path: Path) -> None:
    named = [tmp_path / f"{name}.pcap" for name in ("all14", "aioquic", "libcurl-2", "warmup", "all14_h2")]
    assert [path.stem for path in acks.captures_of_quic(named)] == ["aioquic", "libcurl-2"]
    acks.write([], [], tmp_path / "none.parquet", str, STAMPS)
    assert not (tmp_path / "none.parquet").exists()
