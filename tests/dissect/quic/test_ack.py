"""quic_ack: every column of recorded connections as computed from tshark's packets."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from schemas import records
from tests.dissect.conftest import FIXTURES, Row, dissect, rows
from tests.dissect.quic import acks
from tests.dissect.quic.test_flights import NOT_OPENED

QUIC = FIXTURES.parent / "quic"
# Several connections on the same port, and a version that tshark 4.0 misreads.
NOT_COMPARED = {"quicgo_version_2", "quicgo_port_reuse", "quiche_version_negotiation"} | NOT_OPENED
CAPTURES = sorted([*FIXTURES.glob("*.pcap"), *QUIC.glob("*.pcap")])
COMPARED = [path for path in CAPTURES if path.stem not in NOT_COMPARED]
KIND = ("--kind", "quic_ack")
STAMPS = ("--stamp", "run=r", "--stamp", "vantage=v", "--stamp", "repetition=2", "--stamp", "tool_version=t")


def sides(*arguments: str | Path) -> dict[str, Row]:
    found = rows(*arguments, *KIND)
    assert len({row["acks_from"] for row in found}) == len(found)
    return {row["acks_from"]: row for row in found}


@pytest.mark.parametrize("capture", COMPARED, ids=lambda path: path.stem)
def test_every_column_is_what_tshark_reads(capture: Path) -> None:
    found = sides(capture)
    read = acks.read(capture, capture.with_suffix(".keys"))
    having = {p.side for p in read.packets if any(frame.is_ack for frame in p.frames)}
    assert set(found) == having
    (connection,) = rows(capture, "--kind", "quic_connection")
    for side, row in found.items():
        expected = acks.expected(read, side, row["capture_side"])
        assert {column: row[column] for column in expected} == expected, side
        shared = set(row) & set(connection) - {"kind"}
        assert len(shared) > 10 and {c: row[c] for c in shared} == {c: connection[c] for c in shared}
        side_bytes = sum(p.size for p in read.packets if p.side == side)
        assert sum(row[column] for column in row if column.startswith("bytes_")) == side_bytes


def test_every_column_is_compared() -> None:
    capture = QUIC / "quicgo_ipv6.pcap"
    compared = acks.expected(acks.read(capture, capture.with_suffix(".keys")), "client", None)
    described = {column.name for column in records.load("quic_ack").columns if column.source == "dissector"}
    (connection, *_) = rows(capture, "--kind", "quic_connection")
    requested = {"requested_threshold", "requested_max_ack_delay_us", "requested_reordering"}
    assert described - set(compared) - set(connection) - requested == {"acks_from"}


def test_a_connection_with_loss() -> None:
    both = sides(QUIC / "quicgo_loss.pcap")
    assert both["client"]["peer_eliciting"] > 70
    assert any(row["packet_number_gaps"] or row["acked_unseen"] for row in both.values())
    assert both["client"]["ranges_max"] > 1
    reordered = sides(QUIC / "quicgo_reordering.pcap")["client"]
    assert reordered["reordered"] > 0 and reordered["acks_by_reordering"] > 0


def test_waits_are_known_where_the_capture_was_made_only() -> None:
    for name, capture_side in (("quicgo_at_server", "server"), ("quicgo_ipv6", "client")):
        for side, row in sides(QUIC / f"{name}.pcap").items():
            assert row["capture_side"] == capture_side
            for column in (
                "acks_by_count",
                "acks_by_timer",
                "acks_by_reordering",
                "waits_over_max_ack_delay",
            ):
                assert (row[column] is not None) == (side == capture_side)


def test_without_keys_only_initials_are_counted(tmp_path: Path) -> None:
    capture = tmp_path / "none.pcap"
    capture.write_bytes((QUIC / "quiche_loss.pcap").read_bytes())
    found, opened = sides(capture), sides(QUIC / "quiche_loss.pcap")
    initial = ("ack_packets_initial", "ack_only_packets_initial", "bundled_packets_initial")
    unknown = [c.name for c in records.load("quic_ack").columns if c.nullable and c.name not in ("sni",)]
    for side, row in found.items():
        assert {c: row[c] for c in initial} == {c: opened[side][c] for c in initial}
        known = {c for c in unknown if row[c] is not None}
        assert known <= {"server_scid", "capture_side", "max_ack_delay_us", "ack_delay_exponent"}
        assert ("max_ack_delay_us" in known) == (side == "client")


def test_rows_do_not_change_other_kinds_and_have_their_schema_as_parquet(tmp_path: Path) -> None:
    capture = QUIC / "quicgo_migration.pcap"
    together = rows(capture, "--kind", "quic_connection,quic_packet,quic_ack")
    alone = rows(capture, "--kind", "quic_connection,quic_packet")
    assert [row for row in together if row["kind"] != "quic_ack"] == alone
    done = dissect(capture, *KIND, "--format", "parquet", "--out", tmp_path, *STAMPS)
    assert done.returncode == 0, done.stderr
    table = pq.read_table(tmp_path / "quic_ack.parquet")
    assert table.schema.equals(records.load("quic_ack").arrow_schema(), check_metadata=False)
    assert {(row["run"], row["vantage"], row["repetition"]) for row in table.to_pylist()} == {("r", "v", 2)}
