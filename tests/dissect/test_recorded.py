"""Recorded connections of real stacks with special events: their rows describe the events."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.differential.scenarios import snapped
from tests.dissect.conftest import FIXTURES, Row, dissect, rows

QUIC, TCP = FIXTURES.parent / "quic", FIXTURES.parent / "tcp"
PLAIN = {"retry": False, "client_hello_copies": 1, "paths": 1, "hello_retry": False}
# The client is given an address, and sends this name then.
AT_LIMIT = PLAIN | {"sni": "localhost"}

# recording -> expected values of each connection; tests/recording/quic.py defines the events, except for the
# recordings at a server's limit, which are from the testbed (tests/fixtures/quic/README.md)
EXPECTED: dict[str, list[dict[str, Any]]] = {
    "aioquic_fragments": [{"payload_bytes_client": 20_000, "payload_bytes_server": 10_000}],
    "aioquic_fragments_ipv6": [{"payload_bytes_client": 20_000, "payload_bytes_server": 10_000}],
    "quicgo_at_limit": [
        AT_LIMIT | {"blocked_us": 7055, "first_answer": "coalesced", "certificate_bytes": 5033}
    ],
    "quicgo_at_server": [{"capture_side": "server", "rtt_samples": None, "payload_bytes_server": 8000}],
    "quicgo_ipv6": [{"client_ip": "2001:db8::1", "payload_bytes_server": 5000}],
    "quicgo_key_update": [
        {
            "key_updates_client": 1,
            "key_updates_server": 1,
            "payload_bytes_server": 150_000,
            "retransmission_rate": 0,
        }
    ],
    "quicgo_loss": [{"payload_bytes_server": 100_000, "client_hello_copies": 4}],
    "quicgo_migration": [{"paths": 2, "migrations": 1, "payload_bytes_server": 45_000}],
    "quicgo_port_reuse": [{"client_port": 40001, "payload_bytes_server": 1000}] * 3,
    "quicgo_rebinding": [{"paths": 2, "migrations": 1, "payload_bytes_server": 27_000}],
    "quicgo_reordering": [{"payload_bytes_server": 60_000}],
    "quicgo_retry": [{"retry": True, "amplification": None, "first_answer": "coalesced"}],
    "quicgo_version_2": [{"version": "0x6b3343cf", "version_used": "0x6b3343cf", "alpn_selected": "h3"}],
    "quiche_certificate_late": [{"first_answer": "coalesced"}],
    # The server's packet numbers continue after the HelloRetryRequest.
    "quiche_hello_retry": [
        {"hello_retry": True, "client_hello_copies": 2, "first_answer": "coalesced", "gap_before_sh": False}
    ],
    "quiche_iack": [PLAIN | {"first_answer": "iack"}],
    "quiche_key_updates": [
        {"key_updates_client": 3, "key_updates_server": 3, "payload_bytes_client": 40_000}
    ],
    "quiche_large_certificate": [PLAIN | {"first_answer": "coalesced", "certificate_bytes": 5031}],
    "quiche_loss": [{"client_hello_copies": 2, "payload_bytes_client": 40_000, "gap_before_sh": True}],
    "quiche_rebinding": [{"paths": 2, "migrations": 1, "payload_bytes_client": 24_000}],
    "quiche_retry_iack": [{"retry": True, "amplification": None, "first_answer": "iack"}],
    "s2n_at_limit": [AT_LIMIT | {"blocked_us": 7247, "first_answer": "coalesced", "certificate_bytes": 5032}],
    "quiche_version_negotiation": [
        {"first_answer": "version_negotiation", "version": "0x6b3343cf", "version_list": "0x00000001"},
        {"first_answer": "coalesced", "version": "0x00000001"},
    ],
}
# The server's configured wait in microseconds, and the columns that show it.
DELAYS = {
    "quiche_iack": ("ack_to_sh_us", 15_000),
    "quiche_retry_iack": ("ack_to_sh_us", 8000),
    "quiche_certificate_late": ("sh_to_handshake_us", 12_000),
}


def connections(name: str) -> list[Row]:
    return rows(QUIC / f"{name}.pcap", "--kind", "quic_connection")


def test_every_recording_is_looked_at() -> None:
    assert set(EXPECTED) == {path.stem for path in QUIC.glob("*.pcap")}


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_connections(name: str) -> None:
    found = connections(name)
    assert len(found) == len(EXPECTED[name])
    for row, expected in zip(found, EXPECTED[name], strict=True):
        assert {column: row[column] for column in expected} == expected
        # In every recording all packets are decrypted, and the name is read from one datagram or two.
        name = expected.get("sni", "www.example.net")
        assert (row["undecrypted_packets"], row["sni"]) == (0, name)
        if "certificate_bytes" not in expected and row["handshake_done_us"] is not None:
            assert 1100 < row["certificate_bytes"] < 1400


@pytest.mark.parametrize("name", sorted(DELAYS))
def test_declared_delays_show(name: str) -> None:
    """Within the extra delay of a relay in Python on a busy machine."""
    column, declared_us = DELAYS[name]
    (row,) = connections(name)
    assert declared_us - 1000 < row[column] < declared_us + 15_000


def test_a_client_hello_over_two_datagrams_is_acknowledged_in_part_first() -> None:
    """quic-go sends a post-quantum key share. quiche acknowledges half of it first: no instant ACK."""
    (row,) = connections("quiche_large_certificate")
    assert row["partial_ack_us"] is not None
    assert row["partial_ack_us"] < row["sh_us"]
    packets = rows(QUIC / "quiche_large_certificate.pcap", "--kind", "quic_packet")
    from_client = [packet for packet in packets if packet["from_client"] and packet["type"] == "initial"]
    assert "crypto" in from_client[0]["frames"]
    assert "crypto" in from_client[1]["frames"]


def test_packets_share_datagrams() -> None:
    for name in ("quiche_iack", "quicgo_retry"):
        packets = rows(QUIC / f"{name}.pcap", "--kind", "quic_packet")
        frames = [packet["frame_number"] for packet in packets]
        assert len(set(frames)) < len(frames)


@pytest.mark.parametrize("name", ["quicgo_key_update", "quicgo_loss", "quiche_loss", "quicgo_ipv6"])
def test_throughput_is_what_tshark_adds_up(name: str) -> None:
    (row,) = connections(name)
    ports = (row["client_port"], row["server_port"])
    found = [datagram for datagram in _datagrams(QUIC / f"{name}.pcap") if set(datagram[:2]) == set(ports)]
    client = sum(size for src, _, _, size in found if src == row["client_port"])
    server = sum(size for src, _, _, size in found if src == row["server_port"])
    assert (row["ip_bytes_client"], row["ip_bytes_server"]) == (client, server)
    duration_ns = found[-1][2] - found[0][2]
    assert row["duration_us"] == duration_ns // 1000
    assert row["anrw_throughput_bps"] == (client + server) * 8_000_000_000 // duration_ns
    retransmitted = row["retransmitted_bytes_client"] + row["retransmitted_bytes_server"]
    assert row["anrw_goodput_bps"] == (client + server - retransmitted) * 8_000_000_000 // duration_ns
    assert row["retransmission_rate"] == pytest.approx(retransmitted / (client + server))
    assert (retransmitted > 0) == name.endswith("loss")
    # Until the server's last packet with application data.
    packets = rows(QUIC / f"{name}.pcap", "--kind", "quic_packet")
    data = [packet["time_ns"] for packet in packets if not packet["from_client"] and _has_data(packet)]
    assert bool(data) == (row["payload_bytes_server"] > 0)
    if data:
        until = max(data) - found[0][2]
        assert row["application_goodput_bps"] == row["payload_bytes_server"] * 8_000_000_000 // until
        size = sum(size for src, _, ns, size in found if src == row["server_port"] and ns <= max(data))
        assert row["download_throughput_bps"] == size * 8_000_000_000 // until


def _has_data(packet: Row) -> bool:
    frames = packet["frames"].split("; ")
    return any(frame.startswith("stream ") and not frame.split()[2].endswith("+0") for frame in frames)


def _datagrams(capture: Path) -> list[tuple[int, int, int, int]]:
    """Return source port, destination port, time and IP length of every datagram, by tshark."""
    argv = ["tshark", "-r", str(capture), "-Y", "udp", "-T", "fields"]
    for name in ("udp.srcport", "udp.dstport", "frame.time_epoch", "ip.len", "ipv6.plen"):
        argv += ["-e", name]
    done = subprocess.run(argv, capture_output=True, check=True, text=True)
    found = []
    for line in done.stdout.splitlines():
        src, dst, time, four, six = line.split("\t")
        seconds, fraction = time.split(".")
        size = int(four) if four else int(six) + 40
        found.append((int(src), int(dst), int(seconds) * 10**9 + int(fraction), size))
    return found


# Columns for a connection that require its keys.
NEED_KEYS = [
    "handshake_done_us",
    "first_stream_us",
    "alpn_selected",
    "transport_parameters_server",
    "handshake_ack_delay_raw",
    "handshake_ack_delay_us",
    "certificate_bytes",
    "certificate_message_bytes",
    "spurious_retransmissions_client",
    "spurious_retransmissions_server",
    "key_updates_client",
    "key_updates_server",
    "migrations",
    "closed_us",
    "closed_by",
    "closed_by_application",
    "closed_code",
    "closed_reason",
    "payload_bytes_client",
    "payload_bytes_server",
    "anrw_goodput_bps",
    "upload_throughput_bps",
    "retransmitted_bytes_client",
    "retransmitted_bytes_server",
    "retransmission_rate",
]
KNOWN = [
    "sni",
    "alpn",
    "first_answer",
    "ack_to_sh_us",
    "server_hello_us",
    "amplification",
    "ip_bytes_client",
    "ip_bytes_server",
    "duration_us",
    "anrw_throughput_bps",
    "transport_parameters_client",
    "packets_server",
    "packets_client",
    "cipher_suite",
    "paths",
]


def test_without_keys_nothing_is_guessed(tmp_path: Path) -> None:
    """A copy with another name has no key log: its other columns equal the original's."""
    path = tmp_path / "alone.pcap"
    path.write_bytes((QUIC / "quiche_loss.pcap").read_bytes())
    (bare,), (full,) = rows(path, "--kind", "quic_connection"), connections("quiche_loss")
    # This server sends no data, and its first ACK of the Handshake space was never sent.
    without = {"first_stream_us", "handshake_ack_delay_raw", "handshake_ack_delay_us"}
    assert {column for column in NEED_KEYS if full[column] is None} == without
    assert {column for column in full if full[column] is not None and bare[column] is None} >= set(
        NEED_KEYS
    ) - without
    assert [column for column in NEED_KEYS if bare[column] is not None] == []
    assert {column: bare[column] for column in KNOWN} == {column: full[column] for column in KNOWN}
    assert bare["undecrypted_packets"] > full["undecrypted_packets"] == 0


@pytest.mark.parametrize("name", ["quicgo_loss", "quiche_iack"])
def test_only_the_clients_direction(name: str, tmp_path: Path) -> None:
    path = _filtered(name, "udp.dstport == 443", tmp_path)
    (row,) = rows(path, "--keys", QUIC / f"{name}.keys", "--kind", "quic_connection")
    assert (row["packets_server"], row["ip_bytes_server"], row["first_answer"]) == (0, 0, "timeout")
    assert (row["sni"], row["undecrypted_packets"]) == ("www.example.net", 0)
    for column in (
        *("first_ack_us", "server_hello_us", "ack_us", "sh_us", "ttl", "certificate_bytes", "alpn_selected"),
        *("rtt_samples", "pto_series_us", "spurious_retransmissions_client", "amplification"),
        *("download_throughput_bps", "application_goodput_bps", "transport_parameters_server"),
    ):
        assert row[column] is None, column


@pytest.mark.parametrize("name", ["quicgo_retry", "quiche_retry_iack"])
@pytest.mark.parametrize("part", ["udp.dstport == 443", "!(quic.long.packet_type == 3)"])
def test_a_retry_that_is_not_in_the_capture(name: str, part: str, tmp_path: Path) -> None:
    """Only the client's direction, or all but the Retry: one connection, identified by the token."""
    (complete,) = connections(name)
    keys = ("--keys", QUIC / f"{name}.keys")
    path = _filtered(name, part, tmp_path)
    (row,) = rows(path, *keys, "--kind", "quic_connection")
    columns = ("odcid", "client_scid", "sni", "packets_client", "ip_bytes_client", "hello_time_ns", "retry")
    assert {column: row[column] for column in columns} == {column: complete[column] for column in columns}
    assert (row["retry"], row["retry_us"], row["undecrypted_packets"]) == (True, None, 0)
    packets = rows(path, *keys, "--kind", "quic_packet")
    assert {packet["odcid"] for packet in packets} == {complete["odcid"]}
    assert len(packets) == row["packets_client"] + row["packets_server"]
    if "!" in part:
        answer = ("server_scid", "first_answer", "ack_us", "sh_us", "ack_to_sh_us", "handshake_done_us")
        assert {column: row[column] for column in answer} == {column: complete[column] for column in answer}


@pytest.mark.parametrize("name", ["quicgo_key_update", "quiche_key_updates"])
def test_connections_without_a_start_are_counted(name: str, tmp_path: Path) -> None:
    """Only the server's direction, or a start in the middle: without a client's Initial, no connection."""
    keys = QUIC / f"{name}.keys"
    for display in ("udp.srcport == 443", "frame.number > 25"):
        done = dissect(
            _filtered(name, display, tmp_path), "--keys", keys, "--kind", "quic_connection,quic_packet"
        )
        assert (done.returncode, done.stdout) == (0, b"")
        assert b"UDP datagrams of no known connection" in done.stderr


# Columns that may differ in a capture with cut packets: counts of decoded packets, and their round trips.
COUNTED = {
    *("client_hello_copies", "bytes_received", "datagrams_received", "hello_retry", "undecrypted_packets"),
    *("packets_client", "packets_server", "source_file", "detail"),
    *("rtt_samples", "rtt_min_us", "rtt_smoothed_us", "rtt_variation_us"),
    *("rtt_series_at_us", "rtt_series_us", "pto_series_us"),
}
# Only frames show where these migrated to: packets from there are not attributed to them.
MOVED = ("quicgo_migration", "quicgo_rebinding", "quiche_rebinding")
VOLUME = {
    *("datagrams_client", "datagrams_server", "ip_bytes_client", "ip_bytes_server"),
    *("duration_us", "anrw_throughput_bps", "paths"),
}
# Its Retry is longer than the cut packets.
RETRY_CUT = {("quicgo_retry", 120), ("quiche_retry_iack", 120)}


@pytest.mark.parametrize("snaplen", [120, 200, 400, 1250])
@pytest.mark.parametrize("name", [name for name in EXPECTED if "fragments" not in name])
def test_what_the_snap_length_cut_is_null(name: str, snaplen: int, tmp_path: Path) -> None:
    """Each connection keeps its row; a column has the value from the whole capture, or null."""
    path = snapped(QUIC / f"{name}.pcap", tmp_path / "cut.pcap", snaplen)
    complete = connections(name)
    ports = ("--quic-port", str(complete[0]["server_port"]))
    found = rows(path, "--keys", QUIC / f"{name}.keys", "--kind", "quic_connection", *ports)
    assert [row["odcid"] for row in found] == [row["odcid"] for row in complete]
    for cut_row, whole_row in zip(found, complete, strict=True):
        differing = {
            column for column, value in cut_row.items() if value is not None and value != whole_row[column]
        }
        if (name, snaplen) in RETRY_CUT:
            differing -= {"retry"}
        if name in MOVED:
            differing -= VOLUME
        if cut_row["first_answer"] == "malformed":
            assert cut_row["detail"] == "cut by the capture"
            differing -= {"first_answer"}
        assert differing <= COUNTED, cut_row
        if cut_row["undecrypted_packets"] > whole_row["undecrypted_packets"]:
            assert cut_row["payload_bytes_server"] is cut_row["retransmission_rate"] is None


def test_lengths_of_cut_packets_are_those_on_the_wire(tmp_path: Path) -> None:
    (complete,) = connections("quicgo_key_update")
    path = snapped(QUIC / "quicgo_key_update.pcap", tmp_path / "cut.pcap", 400)
    (pace,) = [row for row in rows(path, "--kind", "pacing") if row["src_port"] == 443]
    (row,) = rows(path, "--kind", "quic_connection")
    assert pace["ip_bytes"] == row["ip_bytes_server"] == complete["ip_bytes_server"]
    assert (row["sni"], row["ack_us"], row["amplification"]) == (None, None, None)


def test_a_cut_initial_starts_a_connection_where_quic_is_expected(tmp_path: Path) -> None:
    """Other ports must be named. Where connection IDs may be cut as well, no connection starts."""
    path = snapped(QUIC / "quicgo_at_server.pcap", tmp_path / "cut.pcap", 400)
    assert rows(path, "--kind", "quic_connection") == []
    (row,) = rows(path, "--kind", "quic_connection", "--quic-port", "4433")
    assert (row["server_port"], row["first_answer"]) == (4433, "malformed")
    path = snapped(QUIC / "quiche_iack.pcap", tmp_path / "short.pcap", 80)
    done = dissect(path, "--kind", "quic_connection")
    assert (done.returncode, done.stdout) == (0, b"")
    assert b"13 UDP datagrams of no known connection" in done.stderr


def _filtered(name: str, display: str, folder: Path) -> Path:
    """Write the frames in a recording that match a display filter of tshark."""
    path = folder / "part.pcap"
    argv = ["tshark", "-r", str(QUIC / f"{name}.pcap"), "-Y", display, "-F", "pcap", "-w", str(path)]
    subprocess.run(argv, check=True, capture_output=True)
    return path


TCP_EXPECTED: dict[str, dict[str, Any]] = {
    "tcp_fragments": {"payload_bytes_server": 20_000, "ip_length_guessed": False},
    "tcp_from_client_only": dict.fromkeys(
        [
            *(
                "mss_server",
                "sack_permitted_server",
                "window_shift_client",
                "window_shift_server",
                "capture_side",
            ),
            *("rtt_mean_us", "download_throughput_bps", "ttl_server", "syn_ack_us", "first_byte_us"),
        ]
    )
    | {"packets_server": 0, "payload_bytes_client": 3, "rtt_samples": 0, "sack_permitted_client": True},
    # Its start is unknown.
    "tcp_from_server_only": dict.fromkeys(
        [
            *("mss_client", "wscale_client", "window_shift_client", "window_shift_server", "capture_side"),
            *(
                "rtt_mean_us",
                "upload_throughput_bps",
                "syn_ack_us",
                "handshake_us",
                "request_us",
                "first_byte_us",
            ),
        ]
    )
    | {"packets_client": 0, "payload_bytes_server": 300_000, "rtt_samples": 0, "server_port": 8080},
    "tcp_jumbo": {"payload_bytes_server": 3_000_000, "ip_length_guessed": True},
    "tcp_jumbo_ipv6": {"payload_bytes_server": 3_000_000, "ip_length_guessed": True},
    "tcp_loss": {"payload_bytes_server": 300_000, "fin_client": True, "fin_server": True},
    "tcp_loss_at_server": {"payload_bytes_server": 300_000},
    "tcp_loss_ipv6": {"payload_bytes_server": 300_000, "client_ip": "2001:db8::1"},
    "tcp_offload": {
        "payload_bytes_server": 2_000_000,
        "ip_length_guessed": False,
        "retransmission_packets": 0,
    },
    "tcp_reordering": {"payload_bytes_server": 300_000},
    "tcp_reset": {"fin_client": False},
    "tcp_zero_window": {"payload_bytes_server": 200_000, "wscale_client": 0, "window_shift_client": 0},
}


def test_every_tcp_recording_is_looked_at() -> None:
    assert set(TCP_EXPECTED) == {path.stem for path in TCP.glob("*.pcap")}


@pytest.mark.parametrize("name", sorted(TCP_EXPECTED))
def test_flows(name: str) -> None:
    (flow,) = rows(TCP / f"{name}.pcap", "--kind", "tcp_flow")
    expected = TCP_EXPECTED[name]
    assert {column: flow[column] for column in expected} == expected
    if "loss" in name:
        assert flow["sack_blocks_client"] > 0
        assert flow["retransmission_packets"] + flow["fast_retransmission_packets"] > 5
    if name == "tcp_reordering":
        assert flow["spurious_retransmission_packets"] > 0
    if name == "tcp_reset":
        assert flow["resets_client"] > 0
    if name == "tcp_zero_window":
        assert flow["zero_windows_client"] > 0
    if flow["ip_length_guessed"]:
        # More than the payload: each segment has its headers.
        assert flow["ip_bytes_server"] > 3_000_000 + 40 * flow["packets_server"]
