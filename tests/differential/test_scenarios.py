"""Rows of connections with unusual events in the network, the capture or the stacks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.differential import scenarios
from tests.dissect.conftest import dissect, rows

# scenario -> expected values of each connection
EXPECTED: dict[str, list[dict[str, Any]]] = {
    "plain": [{"first_answer": "coalesced", "sni": "www.example.net", "undecrypted_packets": 0}],
    "hello_over_two_datagrams": [
        {"first_answer": "coalesced", "sni": "www.example.net", "client_hello_copies": 1, "ack_us": 20_000}
    ],
    "key_updates": [{"key_updates_client": 3, "key_updates_server": 3, "undecrypted_packets": 0}],
    "migration": [{"migrations": 1, "paths": 2, "undecrypted_packets": 0}],
    "rebinding": [{"migrations": 1, "paths": 2, "undecrypted_packets": 0}],
    "retry": [{"retry": True, "first_answer": "coalesced", "retry_us": 20_000, "undecrypted_packets": 0}],
    "version_negotiation": [
        {"first_answer": "version_negotiation", "version": "0x6b3343cf", "version_list": "0x00000001"}
    ],
    "version_2": [{"version": "0x6b3343cf", "first_answer": "coalesced", "undecrypted_packets": 0}],
    "loss": [{"client_hello_copies": 2, "first_answer": "sh_first"}],
    "reordering": [{"first_answer": "coalesced", "undecrypted_packets": 0}],
    "port_reuse": [{"first_answer": "coalesced"}] * 3,
    "small_frames": [{"first_answer": "coalesced", "undecrypted_packets": 0}],
    "client_only": [{"first_answer": "timeout", "packets_server": 0, "sni": "www.example.net"}],
    "server_only": [],
    "missing_start": [],
}


def test_every_scenario_is_looked_at() -> None:
    assert set(EXPECTED) == set(scenarios.SCENARIOS)


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_connections(name: str, tmp_path: Path) -> None:
    found = rows(scenarios.make(name, tmp_path), "--kind", "quic_connection")
    assert len(found) == len(EXPECTED[name])
    for row, expected in zip(found, EXPECTED[name], strict=True):
        assert {column: row[column] for column in expected} == expected


@pytest.mark.parametrize("name", ["server_only", "missing_start"])
def test_connections_without_a_start_are_counted(name: str, tmp_path: Path) -> None:
    done = dissect(scenarios.make(name, tmp_path), "--kind", "quic_connection")
    assert (done.returncode, done.stdout) == (0, b"")
    assert b"UDP datagrams of no known connection" in done.stderr


def test_cut_connection_ids_begin_no_connection(tmp_path: Path) -> None:
    complete = scenarios.make("plain", tmp_path)
    done = dissect(scenarios.snapped(complete, tmp_path / "cut.pcap", 60), "--kind", "quic_connection")
    assert (done.returncode, done.stdout) == (0, b"")


@pytest.mark.parametrize("length", [100, 300])
def test_cut_packets_are_counted_and_not_guessed(length: int, tmp_path: Path) -> None:
    """A truncated Initial has the values of the header, but no later values."""
    complete = scenarios.make("plain", tmp_path)
    (complete_row,) = rows(complete, "--kind", "quic_connection")
    (row,) = rows(scenarios.snapped(complete, tmp_path / "cut.pcap", length), "--kind", "quic_connection")
    for column in ("version", "odcid", "client_scid", "datagrams_server", "ip_bytes_server", "duration_us"):
        assert row[column] == complete_row[column]
    for column in ("first_ack_us", "server_hello_us", "first_handshake_us", "amplification"):
        assert row[column] in (complete_row[column], None)
    for column in ("client_hello_us", "sni", "alpn", "ack_us", "sh_us"):
        assert row[column] is None
    assert (row["first_answer"], row["detail"]) == ("malformed", "cut by the capture")
    assert row["undecrypted_packets"] > complete_row["undecrypted_packets"]


def test_small_packets_survive_a_large_snap_length(tmp_path: Path) -> None:
    complete = scenarios.make("plain", tmp_path)
    (row,) = rows(scenarios.snapped(complete, tmp_path / "cut.pcap", 1228), "--kind", "quic_connection")
    assert (row["first_answer"], row["sni"]) == ("coalesced", "www.example.net")
