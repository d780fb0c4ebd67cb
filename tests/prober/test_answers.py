"""Records of probes to real and silent servers."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable

import pytest

from tests.prober.conftest import Probe, datagrams
from tests.waiting import PATIENCE_S

Silent = Callable[[str], socket.socket]


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_a_real_server(probe: Probe, aioquic_ports: tuple[int, int], address: str) -> None:
    before = time.time_ns()
    done = probe([(address, "prober.test", aioquic_ports[0])])
    row = done.row("prober.test")
    assert (done.status, row["outcome"], row["attempts"]) == (0, "coalesced", 1)
    assert before < row["sent_at"] < time.time_ns()
    assert 0 < row["ack_us"] == row["sh_us"]
    assert (row["ack_to_sh_us"], row["sh_to_handshake_us"], row["gap_before_sh"]) == (0, 0, False)
    assert (row["src_ip"], row["ttl"], row["version"]) == (address, 64, "0x00000001")
    assert row["initial_size"] == row["bytes_sent"] == (1252 if address == "127.0.0.1" else 1232)
    assert row["src_port"] in done.summary["source_ports"]
    assert (row["ack_largest"], row["first_ack_range"], row["ack_pn"]) == (0, 0, 0)
    assert row["ack_delay_us"] == 8 * row["ack_delay_raw"]
    assert row["ack_delay_us"] < row["ack_us"]
    assert row["amplification"] == pytest.approx(row["bytes_received"] / row["bytes_sent"], rel=1e-6)
    assert len(row["client_cid"]) == 16 and len(row["server_cid"]) == 16
    assert (done.summary["closes"], done.summary["missing_tx_stamps"]) == (1, 0)


def test_retry_is_followed(probe: Probe, aioquic_ports: tuple[int, int]) -> None:
    done = probe([("127.0.0.1", "", aioquic_ports[1])])
    (row,) = done.rows
    assert (row["outcome"], row["retried"], row["attempts"]) == ("coalesced", True, 1)
    assert (row["amplification"], row["ack_largest"], done.summary["token_initials"]) == (None, 1, 1)
    # The Retry's time counts from the first Initial, the answer's time from the Initial with the token.
    assert row["retry_us"] > 0 and 0 < row["ack_us"] == row["sh_us"]


def test_an_instant_ack_of_the_responder(probe: Probe, responder: int) -> None:
    done = probe([(f"127.7.{i}.1", f"n{i}.test", responder) for i in range(50)], "--rate", 2000)
    assert {row["outcome"] for row in done.rows} == {"iack"}
    for row in done.rows:
        assert 0 < row["ack_us"] <= row["sh_us"]
        assert row["ack_to_sh_us"] == row["sh_us"] - row["ack_us"]
        assert (row["ack_frames"], row["ack_eliciting"], row["ack_datagram_bytes"]) == (
            "ack,padding",
            False,
            1200,
        )
        assert (row["ack_pn"], row["sh_pn"], row["sh_to_handshake_us"]) == (0, 1, 0)
        assert (row["bytes_received"], row["datagrams_received"], row["discarded"]) == (2400, 2, 0)
    assert len({row["client_cid"] for row in done.rows}) == 50


def test_silence_is_tried_twice(probe: Probe, silent: Silent) -> None:
    server = silent("127.0.0.1")
    took_s = []
    for _ in range(5):
        datagrams(server)
        began = time.monotonic()
        target = ("127.0.0.1", "quiet.test", server.getsockname()[1])
        done = probe([target], "--timeout", "0.4", "--linger-ms", 50)
        took_s.append(time.monotonic() - began)
        # Each of the two attempts waits for 0.4 s instead of the default of 3 s.
        assert took_s[-1] >= 0.8
        if took_s[-1] < 6:
            break
    assert took_s[-1] < 6, took_s
    row = done.row("quiet.test")
    assert (row["outcome"], row["attempts"], row["ack_us"], row["ttl"]) == ("timeout", 2, None, None)
    first, second = datagrams(server)
    assert len(first) == len(second) == 1252 and first[1:6] == second[1:6] == b"\0\0\0\x01\x08"
    assert first[6:14] != second[6:14], "each attempt must have a new connection ID"
    assert second[15:23].hex() == row["client_cid"] != first[15:23].hex()
    assert (done.summary["retransmissions"], done.summary["closes"]) == (1, 0)
    assert row["amplification"] == 0 and row["sent_at"] is not None


def test_the_second_connection_comes_from_another_port(probe: Probe, silent: Silent) -> None:
    server = silent("127.0.0.1")
    probe(
        [("127.0.0.1", "quiet.test", server.getsockname()[1])], "--timeout", "0.2", "--ports", "62300-62301"
    )
    ports = []
    for _ in range(2):
        ports.append(server.recvfrom(2048)[1][1])
    assert sorted(ports) == [62300, 62301]


@pytest.mark.parametrize(("address", "kind", "code"), [("127.0.0.1", 3, 3), ("::1", 1, 4)])
def test_a_closed_port_refuses(probe: Probe, silent: Silent, address: str, kind: int, code: int) -> None:
    closed = silent(address)
    port = closed.getsockname()[1]
    closed.close()
    done = probe([(address, f"n{i}.test", port) for i in range(20)])
    assert [row["outcome"] for row in done.rows] == ["refused"] * 20
    assert {(row["icmp_type"], row["icmp_code"], row["attempts"]) for row in done.rows} == {(kind, code, 1)}
    assert done.summary["missing_tx_stamps"] == 0


def answer(server: socket.socket, make: Callable[[bytes], list[bytes]], count: int) -> threading.Thread:
    """Answers `count` datagrams with the result of `make`."""

    def serve() -> None:
        server.setblocking(True)
        server.settimeout(PATIENCE_S)
        for _ in range(count):
            datagram, peer = server.recvfrom(2048)
            for reply in make(datagram):
                server.sendto(reply, peer)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    return thread


def test_version_negotiation(probe: Probe, silent: Silent) -> None:
    server = silent("127.0.0.1")

    def negotiate(initial: bytes) -> list[bytes]:
        dcid, scid = initial[6:14], initial[15:23]
        return [b"\x80\0\0\0\0\x08" + scid + b"\x08" + dcid + bytes.fromhex("6b3343cf1a2a3a4a")]

    thread = answer(server, negotiate, 1)
    row = probe([("127.0.0.1", "vn.test", server.getsockname()[1])]).row("vn.test")
    thread.join()
    assert (row["outcome"], row["version_list"]) == ("version_negotiation", "0x6b3343cf,0x1a2a3a4a")
    assert row["server_cid"] is None and row["datagrams_received"] == 1


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_a_real_server_negotiates_a_reserved_version(
    probe: Probe, aioquic_ports: tuple[int, int], address: str
) -> None:
    done = probe([(address, "vn.test", aioquic_ports[0])], "--version", "reserved")
    row = done.row("vn.test")
    assert (row["outcome"], row["attempts"], row["ack_us"]) == ("version_negotiation", 1, None)
    assert row["version"][3::2] == "aaaa" and row["version"] not in row["version_list"]
    offered = [int(version, 16) for version in row["version_list"].split(",")]
    assert 1 in offered and row["vn_us"] > 0
    assert row["version_grease"] == sum(version & 0x0F0F0F0F == 0x0A0A0A0A for version in offered)
    assert (done.summary["quic_version"], done.summary["closes"]) == ("reserved", 0)


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
@pytest.mark.parametrize(("mark", "field"), [("ect0", 2), ("ect1", 1)])
def test_marks_leave_and_are_not_mirrored(
    probe: Probe, silent: Silent, aioquic_ports: tuple[int, int], address: str, mark: str, field: int
) -> None:
    row = probe([(address, "a.test", aioquic_ports[0])], "--ecn", mark).row("a.test")
    assert (row["outcome"], row["ecn"], row["ecn_verdict"]) == ("coalesced", mark, "not_mirrored")
    assert (row["ack_ect0"], row["received_ect0"], row["received_ect1"], row["received_ce"]) == (
        None,
        0,
        0,
        0,
    )
    server = silent(address)
    v4 = server.family == socket.AF_INET
    level, option = (
        (socket.IPPROTO_IP, socket.IP_RECVTOS) if v4 else (socket.IPPROTO_IPV6, socket.IPV6_RECVTCLASS)
    )
    server.setsockopt(level, option, 1)
    port = server.getsockname()[1]
    for options, sent in [(("--ecn", mark), field), ((), 0)]:
        row = probe([(address, "b.test", port)], "--timeout", "0.2", "--attempts", 1, *options).row("b.test")
        _, control, _, _ = server.recvmsg(2048, 256)
        assert control[0][2][0] & 3 == sent
        assert (row["ecn"], row["ecn_verdict"]) == (mark if sent else None, None)


def test_garbage_is_malformed_with_a_reason(probe: Probe, silent: Silent) -> None:
    server = silent("127.0.0.1")

    def broken(initial: bytes) -> list[bytes]:
        dcid, scid = initial[6:14], initial[15:23]
        header = b"\xc0\0\0\0\x01\x08" + scid + b"\x08" + dcid + b"\0\x40\x64"
        return [header + b"\x55" * 100]

    thread = answer(server, broken, 1)
    # The prober waits for a better answer until the window closes.
    done = probe([("127.0.0.1", "odd.test", server.getsockname()[1])], "--timeout", 10)
    row = done.row("odd.test")
    thread.join()
    assert (row["outcome"], row["discarded"], row["attempts"]) == ("malformed", 1, 1)
    assert "authenticate" in row["detail"]
    assert done.summary["closes"] == 0, "without an authenticated packet, the prober must not send a close"


def test_an_answer_from_another_address_finds_no_row(probe: Probe, silent: Silent) -> None:
    """Try several times, because on a busy machine, the prober may have exited before the answer arrives."""
    server, other_server = silent("127.0.0.1"), silent("127.0.0.2")

    def elsewhere() -> None:
        server.setblocking(True)
        initial, peer = server.recvfrom(2048)
        other_server.sendto(
            b"\x80\0\0\0\0\x08" + initial[15:23] + b"\x08" + initial[6:14] + b"\x6b\x33\x43\xcf", peer
        )

    unmatched = []
    for timeout_s in ("0.4", "4", "40"):
        thread = threading.Thread(target=elsewhere, daemon=True)
        thread.start()
        target = ("127.0.0.1", "a.test", server.getsockname()[1])
        done = probe([target], "--timeout", timeout_s, "--attempts", 1)
        thread.join()
        assert done.row("a.test")["outcome"] == "timeout"
        unmatched.append(done.summary["unmatched"])
        if unmatched[-1]:
            break
    assert unmatched[-1] == 1 and not any(unmatched[:-1])


def test_connection_ids_are_a_keyed_hash(probe: Probe, silent: Silent) -> None:
    port = silent("127.0.0.1").getsockname()[1]
    options = ("--timeout", "0.2", "--attempts", 1, "--linger-ms", 0)
    targets = [("127.0.0.1", f"n{i}.test", port) for i in range(5)]

    def cids(key: str) -> list[str]:
        rows = probe(targets, *options, "--cid-key", key).rows
        return [row["client_cid"] for row in sorted(rows, key=lambda row: row["domain"])]

    first = cids("00" * 16)
    assert first == cids("00" * 16) != cids("01" * 16)
    assert len(set(first)) == 5


def test_the_close_carries_the_contact(probe: Probe, aioquic_ports: tuple[int, int]) -> None:
    from aioquic._buffer import Buffer
    from aioquic.quic.crypto import CryptoPair
    from aioquic.quic.packet import QuicProtocolVersion, pull_quic_header

    relay = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    received: list[bytes] = []
    relay.bind(("127.0.0.1", 0))
    relay.settimeout(PATIENCE_S)
    server = ("127.0.0.1", aioquic_ports[0])

    def forward() -> None:
        client = None
        while len(received) < 2:
            datagram, peer = relay.recvfrom(2048)
            if peer == server and client is not None:
                relay.sendto(datagram, client)
            else:
                client = peer
                received.append(datagram)
                relay.sendto(datagram, server)

    thread = threading.Thread(target=forward, daemon=True)
    thread.start()
    done = probe([("127.0.0.1", "a.test", relay.getsockname()[1])], "--contact", "mailto:probe@example.org")
    thread.join()
    relay.close()
    assert done.row("a.test")["outcome"] == "coalesced"
    initial, close = received
    assert (len(initial), len(close)) == (1252, 1200)
    header = pull_quic_header(Buffer(data=close), host_cid_length=8)
    crypto = CryptoPair()
    crypto.setup_initial(cid=initial[6:14], is_client=False, version=QuicProtocolVersion.VERSION_1)
    _, payload, number = crypto.decrypt_packet(close, header.packet_length - 1200 + close_offset(close), 1)
    assert number == 1
    reason = b"mailto:probe@example.org"
    assert payload.startswith(b"\x1c\x00\x00" + bytes([len(reason)]) + reason)


def close_offset(datagram: bytes) -> int:
    """Return the offset of the packet number in an Initial without token that fills the datagram."""
    at = 5
    at += 1 + datagram[at]
    at += 1 + datagram[at]
    return at + 1 + 2
