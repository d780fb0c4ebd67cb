"""Every outcome of docs/definitions.md from generated captures, and the rules between them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.dissect import build as b
from tests.dissect.build import MS, CaptureBuilder
from tests.dissect.conftest import rows

Story = Callable[[CaptureBuilder], object]
RETRY_CID = b"\x7e" * 8


def after_retry(frames: bytes, **changes: Any) -> bytes:
    """Return a server's Initial under the keys that follow a Retry."""
    return b.initial(frames, keys_of=RETRY_CID, **changes)


def token_hello(number: int = 1) -> bytes:
    return b.hello_datagram(number, dcid=RETRY_CID, keys_of=RETRY_CID, token=b"token")


# name -> (events after the ClientHello at 0, expected values of the row)
STORIES: dict[str, tuple[Story, dict[str, Any]]] = {
    "iack": (
        lambda c: (
            c.came(10 * MS + 999, b.initial(b.ack(delay=7), 0))
            .came(13 * MS + 200_998, b.initial(b.crypto(b.server_hello()), 1) + b.handshake())
            .sent(14 * MS, b.initial(b.ack(1), 1, from_client=True, pad_to=1200))
            .came(15 * MS, b.handshake())
        ),
        {
            "first_answer": "iack",
            "ack_us": 10_000,
            "sh_us": 13_200,
            "ack_to_sh_us": 3_200,
            "sh_to_handshake_us": 0,
            "ack_delay_raw": 7,
            "initial_ack_delay_us": 56,
            "ack_pn": 0,
            "sh_pn": 1,
            "ack_largest": 0,
            "first_ack_range": 0,
            "ack_frames": "ack",
            "ack_eliciting": False,
            "gap_before_sh": False,
            "datagrams_received": 2,
            "packets_server": 4,
            "datagrams_server": 3,
            "ttl": 57,
            "sni": "www.example.net",
            "alpn": "h3",
            "initial_size": 1252,
        },
    ),
    "coalesced in one packet, frames in any order": (
        lambda c: c.came(9 * MS, b.initial(b.crypto(b.server_hello()) + bytes(3) + b.ack(), 5)),
        {"first_answer": "coalesced", "ack_to_sh_us": 0, "ack_frames": "crypto,padding,ack", "sh_pn": 5},
    ),
    "coalesced in two packets": (
        lambda c: c.came(9 * MS, b.initial(b.ack(), 0) + b.initial(b.crypto(b.server_hello()), 1)),
        {"first_answer": "coalesced", "ack_pn": 0, "sh_pn": 1},
    ),
    "coalesced, ServerHello's packet first": (
        lambda c: c.came(9 * MS, b.initial(b.crypto(b.server_hello()), 0) + b.initial(b.ack(), 1)),
        {"first_answer": "coalesced", "ack_pn": 1, "sh_pn": 0},
    ),
    "sh_first with a later ACK": (
        lambda c: c.came(9 * MS, b.initial(b.crypto(b.server_hello()), 0)).came(
            10 * MS, b.initial(b.ack(), 1)
        ),
        {"first_answer": "sh_first", "ack_to_sh_us": -1000},
    ),
    "sh_first, the ACK too late to settle": (
        lambda c: c.came(9 * MS, b.initial(b.crypto(b.server_hello()), 0)).came(
            110 * MS, b.initial(b.ack(), 1)
        ),
        {"first_answer": "sh_first", "ack_us": None, "ack_to_sh_us": None, "first_ack_us": 110_000},
    ),
    "the certificate comes late": (
        lambda c: c.came(9 * MS, b.initial(b.ack() + b.crypto(b.server_hello()), 0)).came(
            49 * MS, b.handshake()
        ),
        {"first_answer": "coalesced", "sh_to_handshake_us": 40_000, "first_handshake_us": 49_000},
    ),
    "closed after an ACK": (
        lambda c: c.came(9 * MS, b.initial(b.ack(), 0)).came(
            10 * MS, b.initial(b.close(0x128, b"no such name"), 1)
        ),
        {
            "first_answer": "closed",
            "close_code": 0x128,
            "close_reason": "no such name",
            "ack_us": 9_000,
            "sh_us": None,
        },
    ),
    "ack_only": (
        lambda c: c.came(9 * MS, b.initial(b.ack(ecn=True), 0)),
        {"first_answer": "ack_only", "ack_us": 9_000, "ack_to_sh_us": None},
    ),
    "ServerHello after the window": (
        lambda c: c.came(9 * MS, b.initial(b.ack(), 0)).came(
            3001 * MS, b.initial(b.crypto(b.server_hello()), 1)
        ),
        {"first_answer": "ack_only", "sh_us": None, "server_hello_us": 3_001_000},
    ),
    "an ACK of something else": (
        lambda c: c.came(9 * MS, b.initial(b.ack(3), 0)).came(
            11 * MS, b.initial(b.crypto(b.server_hello()), 1)
        ),
        {"first_answer": "sh_first", "ack_us": None, "first_ack_us": 9_000},
    ),
    "retry without more": (
        lambda c: c.came(9 * MS, b.retry()).sent(10 * MS, token_hello()),
        {"first_answer": "retry", "retry": True, "retry_us": 9_000, "hello_time_ns": b.START_NS + 10 * MS},
    ),
    "answered after a Retry": (
        lambda c: (
            c.came(9 * MS, b.retry())
            .sent(10 * MS, token_hello())
            .came(20 * MS, after_retry(b.ack(1)))
            .came(24 * MS, after_retry(b.crypto(b.server_hello()), number=1))
        ),
        {
            "first_answer": "iack",
            "retry": True,
            "retry_us": 9_000,
            "ack_us": 10_000,
            "sh_us": 14_000,
            "first_ack_us": 20_000,
            "client_hello_us": 10_000,
            "ack_largest": 1,
        },
    ),
    "a Retry with a wrong tag": (
        lambda c: c.came(9 * MS, b.retry(odcid=b"\0" * 8)),
        {"first_answer": "malformed", "retry": False, "retry_us": None},
    ),
    "a Retry without token": (
        lambda c: c.came(9 * MS, b.retry(token=b"")),
        {"first_answer": "timeout", "retry": False},
    ),
    "a Retry that changes nothing": (
        lambda c: c.came(9 * MS, b.retry(scid=b.ODCID)),
        {"first_answer": "timeout", "retry": False},
    ),
    "version negotiation": (
        lambda c: c.came(9 * MS, b.version_negotiation([b.V2, 0x1A2A3A4A])),
        {"first_answer": "version_negotiation", "version_list": "0x6b3343cf,0x1a2a3a4a"},
    ),
    "version negotiation that lists the client's version": (
        lambda c: c.came(9 * MS, b.version_negotiation([b.V2, b.V1])),
        {"first_answer": "timeout", "version_list": None},
    ),
    "version negotiation that echoes no connection ID": (
        lambda c: c.came(9 * MS, b.version_negotiation([b.V2], scid=b"\x99" * 8)),
        {"first_answer": "timeout", "version_list": None},
    ),
    "version negotiation after an answer": (
        lambda c: c.came(9 * MS, b.initial(b.ack(), 0)).came(10 * MS, b.version_negotiation([b.V2])),
        {"first_answer": "ack_only", "version_list": None},
    ),
    "refused": (
        lambda c: c.icmp(9 * MS, 3, 3),
        {"first_answer": "refused", "icmp_type": 3, "icmp_code": 3},
    ),
    "refused is final": (
        lambda c: c.icmp(9 * MS, 3, 3).came(10 * MS, b.initial(b.ack(), 0)),
        {"first_answer": "refused", "ack_us": None},
    ),
    "host unreachable is kept, and the probe goes on": (
        lambda c: c.icmp(9 * MS, 3, 1).came(10 * MS, b.initial(b.ack(), 0)),
        {"first_answer": "ack_only", "icmp_type": 3, "icmp_code": 1},
    ),
    "frames that do not parse": (
        lambda c: c.came(9 * MS, b.initial(b.ack() + b"\x21", 0)),
        {"first_answer": "malformed", "ack_us": None, "detail": "Initial 0 opened: malformed frame type"},
    ),
    "frames that do not parse before an answer": (
        lambda c: c.came(9 * MS, b.initial(b"\x21\0\0\0", 0)).came(10 * MS, b.initial(b.ack(), 1)),
        {"first_answer": "ack_only"},
    ),
    "forged": (
        lambda c: c.came(9 * MS, b.initial(b.ack(), 0, keys_of=b"\x11" * 8)),
        {"first_answer": "malformed", "undecrypted_packets": 1, "server_scid": None},
    ),
    "forged before an answer": (
        lambda c: c.came(8 * MS, b.initial(b.ack(), 0, keys_of=b"\x11" * 8)).came(
            9 * MS, b.initial(b.ack(), 0)
        ),
        {"first_answer": "ack_only", "ack_us": 9_000, "undecrypted_packets": 1, "detail": None},
    ),
    "under the right keys, to another client": (
        lambda c: c.came(8 * MS, b.initial(b.close(0, b""), 0, dcid=b"\x99" * 8)).came(
            9 * MS, b.initial(b.ack(), 0)
        ),
        {"first_answer": "ack_only", "close_code": None, "server_scid": b.SERVER_CID.hex()},
    ),
    "another connection ID of the server after its first": (
        lambda c: c.came(9 * MS, b.initial(b.ack(), 0)).came(
            10 * MS, b.initial(b.crypto(b.server_hello()), 1, scid=b"\x99" * 8)
        ),
        {"first_answer": "ack_only", "server_scid": b.SERVER_CID.hex(), "sh_us": None},
    ),
    "a server's Initial with a token": (
        lambda c: c.came(9 * MS, b.initial(b.ack(), 0, token=b"token")),
        {"first_answer": "timeout", "ack_us": None, "server_scid": None},
    ),
    "no frames at all": (
        lambda c: c.came(9 * MS, b.initial(b"", 0, pn_bytes=4)),
        {"first_answer": "malformed", "detail": "Initial 0 opened: malformed packet without frames"},
    ),
    "a frame that no Initial may hold": (
        lambda c: c.came(9 * MS, b.initial(b.ack() + b"\x08\0abc", 0)),
        {
            "first_answer": "malformed",
            "ack_us": None,
            "detail": "Initial 0 opened: malformed frame that no Initial may hold",
        },
    ),
    "an application close": (
        lambda c: c.came(9 * MS, b.initial(b"\x1d\x07\x02no", 0, pn_bytes=4)),
        {"first_answer": "closed", "close_code": 7, "close_reason": "no"},
    ),
    "PING alone": (
        lambda c: c.came(9 * MS, b.initial(b"\x01\0\0\0", 0)),
        {"first_answer": "malformed", "detail": "Initials that answer nothing"},
    ),
    "a Handshake packet alone": (
        lambda c: c.came(9 * MS, b.handshake()),
        {"first_answer": "malformed", "detail": "Handshake packet before any ServerHello"},
    ),
    "timeout": (
        lambda _: None,
        {"first_answer": "timeout", "ack_us": None, "ttl": None, "bytes_received": 0, "detail": None},
    ),
    "copies of an answer change nothing": (
        lambda c: (
            c.came(9 * MS, b.initial(b.ack(), 0))
            .came(10 * MS, b.initial(b.ack(), 0))
            .came(12 * MS, b.initial(b.crypto(b.server_hello()), 1))
            .came(13 * MS, b.initial(b.crypto(b.server_hello()), 1))
        ),
        {"first_answer": "iack", "ack_us": 9_000, "sh_us": 12_000, "gap_before_sh": False},
    ),
    "a lost first packet shows as a gap": (
        lambda c: c.came(9 * MS, b.initial(b.ack(), 4)).came(
            12 * MS, b.initial(b.crypto(b.server_hello()), 6)
        ),
        {"first_answer": "iack", "ack_pn": 4, "sh_pn": 6, "gap_before_sh": True},
    ),
    "packets before a lone small number are lost": (
        lambda c: c.came(9 * MS, b.initial(b.ack() + b.crypto(b.server_hello()), 1)),
        {"first_answer": "coalesced", "gap_before_sh": True},
    ),
    "numbers start anywhere": (
        lambda c: c.came(9 * MS, b.initial(b.ack(), 0xFFFF, pn_bytes=2)).came(
            12 * MS, b.initial(b.crypto(b.server_hello()), 0x10000, pn_bytes=2)
        ),
        {"first_answer": "iack", "ack_pn": 0xFFFF, "sh_pn": 0x10000, "gap_before_sh": False},
    ),
    "a ServerHello in pieces counts from its first byte": (
        lambda c: c.came(9 * MS, b.initial(b.ack() + b.crypto(b.server_hello()[20:], 20), 0)).came(
            12 * MS, b.initial(b.crypto(b.server_hello()[:20]), 1)
        ),
        {"first_answer": "iack", "sh_us": 12_000},
    ),
    "a HelloRetryRequest is no ServerHello": (
        lambda c: c.came(9 * MS, b.initial(b.ack() + b.crypto(b.server_hello(b.HELLO_RETRY_RANDOM)), 0)),
        {"first_answer": "ack_only", "hello_retry": True, "sh_us": None, "server_hello_us": None},
    ),
    "the second ClientHello is answered": (
        lambda c: (
            c.came(9 * MS, b.initial(b.ack() + b.crypto(b.server_hello(b.HELLO_RETRY_RANDOM)), 0))
            .sent(10 * MS, b.initial(b.crypto(b.HELLO, len(b.HELLO)), 1, from_client=True, pad_to=1252))
            .came(20 * MS, b.initial(b.ack(1, first_range=1), 1))
            .came(25 * MS, b.initial(b.crypto(b.server_hello(), len(b.server_hello())), 2))
        ),
        {
            "first_answer": "iack",
            "hello_retry": True,
            "ack_us": 10_000,
            "sh_us": 15_000,
            "first_ack_range": 1,
        },
    ),
    "a message other than a ServerHello": (
        lambda c: c.came(9 * MS, b.initial(b.crypto(b.message(11, b"certificate")), 0)),
        {
            "first_answer": "malformed",
            "sh_us": None,
            "detail": "first message of the server is no ServerHello",
        },
    ),
    "a later copy of the ClientHello is acknowledged": (
        lambda c: (
            c.sent(300 * MS, b.hello_datagram(1))
            .came(310 * MS, b.initial(b.ack(1), 0))
            .came(315 * MS, b.initial(b.crypto(b.server_hello()), 1))
        ),
        {
            "first_answer": "iack",
            "client_hello_copies": 2,
            "ack_us": 10_000,
            "client_hello_us": 300_000,
            "first_ack_us": 310_000,
        },
    ),
    "an answer within the amplification limit": (
        lambda c: (
            c.came(9 * MS, b.initial(b.ack() + b.crypto(b.server_hello()), 0) + b.handshake(900))
            .came(9 * MS + 1, b.handshake(1200))
            .sent(10 * MS, b.initial(b.ack(0), 1, from_client=True, pad_to=1200))
            .came(11 * MS, b.handshake(1200))
        ),
        {
            "first_answer": "coalesced",
            "bytes_sent": 1252,
            "datagrams_received": 2,
            "datagrams_client": 2,
            "bytes_received": len(b.initial(b.ack() + b.crypto(b.server_hello()), 0) + b.handshake(900))
            + len(b.handshake(1200)),
        },
    ),
}


@pytest.mark.parametrize("name", STORIES)
def test_story(name: str, tmp_path: Path) -> None:
    story, expected = STORIES[name]
    capture = CaptureBuilder().sent(0, b.hello_datagram())
    story(capture)
    (row,) = rows(capture.write(tmp_path / "story.pcap"))
    assert {column: row[column] for column in expected} == expected
    assert (row["odcid"], row["client_scid"]) == (b.ODCID.hex(), b.CLIENT_CID.hex())
    assert (row["start_time_ns"], row["client_port"], row["server_ip"]) == (b.START_NS, 40000, "198.51.100.1")


def test_every_outcome_has_a_story() -> None:
    from schemas import records

    covered = {expected["first_answer"] for _, expected in STORIES.values()}
    assert covered == set(records.load("quic_connection").column("first_answer").values)


def test_windows_can_be_set(tmp_path: Path) -> None:
    capture = CaptureBuilder().sent(0, b.hello_datagram()).came(50 * MS, b.initial(b.ack(), 0))
    capture.came(60 * MS, b.initial(b.crypto(b.server_hello()), 1)).came(75 * MS, b.handshake())
    path = capture.write(tmp_path / "windows.pcap")
    (row,) = rows(path, "--answer-window-ms", "55")
    assert (row["first_answer"], row["sh_us"]) == ("ack_only", None)
    (row,) = rows(path, "--settle-ms", "10")
    assert (row["first_answer"], row["sh_to_handshake_us"], row["first_handshake_us"]) == (
        "iack",
        None,
        75_000,
    )


def test_a_hello_over_two_datagrams(tmp_path: Path) -> None:
    """An ACK of the first half is no instant ACK; the times count from the second half."""
    hello = b.client_hello(size=1800)
    capture = CaptureBuilder()
    capture.sent(0, b.initial(b.crypto(hello[:1000]), 0, from_client=True, pad_to=1252))
    capture.sent(1 * MS, b.initial(b.crypto(hello[1000:], 1000), 1, from_client=True, pad_to=1252))
    capture.came(10 * MS, b.initial(b.ack(0), 0))
    capture.came(20 * MS, b.initial(b.ack(1, first_range=1) + b.crypto(b.server_hello()), 1))
    (row,) = rows(capture.write(tmp_path / "two.pcap"))
    assert row["first_answer"] == "coalesced"
    assert (row["client_hello_us"], row["partial_ack_us"], row["ack_us"]) == (1_000, 9_000, 19_000)
    assert (row["first_ack_us"], row["client_hello_copies"], row["sni"]) == (10_000, 1, "www.example.net")


@pytest.mark.parametrize("version", [b.V1, b.V2])
def test_versions(version: int, tmp_path: Path) -> None:
    capture = CaptureBuilder().sent(0, b.hello_datagram(version=version))
    capture.came(10 * MS, b.initial(b.ack(), 0, version=version))
    (row,) = rows(capture.write(tmp_path / "version.pcap"))
    assert (row["first_answer"], row["version"]) == ("ack_only", f"{version:#010x}")


def test_an_unknown_version(tmp_path: Path) -> None:
    datagram = b"\xc0" + b"\x0a\x1a\x2a\x3a" + b"\x08" + b.ODCID + b"\x08" + b.CLIENT_CID + bytes(1200)
    capture = CaptureBuilder().sent(0, datagram).came(10 * MS, b.version_negotiation([b.V1]))
    (row,) = rows(capture.write(tmp_path / "grease.pcap"))
    assert (row["first_answer"], row["version_list"]) == ("version_negotiation", "0x00000001")
    assert (row["hello_time_ns"], row["client_hello_us"], row["ack_us"]) == (None, None, None)


def test_ipv6_and_refusal_at_the_server(tmp_path: Path) -> None:
    capture = CaptureBuilder(client=("2001:db8::10", 40000), server=("2001:db8::1", 443))
    capture.sent(0, b.hello_datagram()).icmp(5 * MS, 1, 4)
    (row,) = rows(capture.write(tmp_path / "six.pcap"))
    assert (row["first_answer"], row["icmp_type"], row["icmp_code"]) == ("refused", 1, 4)
    assert (row["client_ip"], row["server_ip"]) == ("2001:db8::10", "2001:db8::1")


def test_connections_of_one_five_tuple_are_distinguished(tmp_path: Path) -> None:
    other, other_client = b"\x33" * 8, b"\xcc" * 8
    capture = CaptureBuilder().sent(0, b.hello_datagram())
    capture.sent(1 * MS, b.hello_datagram(dcid=other, keys_of=other, scid=other_client))
    capture.came(10 * MS, b.initial(b.ack(), 0))
    capture.came(12 * MS, b.initial(b.ack(), 0, keys_of=other, dcid=other_client))
    found = rows(capture.write(tmp_path / "two.pcap"))
    assert [(row["odcid"], row["ack_us"]) for row in found] == [
        (b.ODCID.hex(), 10_000),
        (other.hex(), 11_000),
    ]


def test_late_packets_make_no_new_row(tmp_path: Path) -> None:
    """After an idle connection is written, its packets are only counted."""
    from tests.dissect.conftest import dissect

    capture = CaptureBuilder().sent(0, b.hello_datagram()).came(10 * MS, b.initial(b.ack(), 0))
    capture.sent(70_000 * MS, b.hello_datagram(1)).came(70_010 * MS, b.initial(b.ack(1), 1))
    path = capture.write(tmp_path / "late.pcap")
    (row,) = rows(path)
    assert (row["client_hello_copies"], row["packets_server"]) == (1, 1)
    assert b"2 late packets" in dissect(path).stderr
    (row,) = rows(path, "--idle-s", "100")
    assert (row["client_hello_copies"], row["packets_server"]) == (2, 2)
