"""Captures from other networks and stacks: the dissector's expected rows, and the source of the expectation.

Each row tests a kind of capture that was once read wrongly. Small captures from `data/` are supplemented by
generated ones. The tests also compare with tshark where it supports the same.
"""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from aioquic.quic.crypto import CryptoContext
from aioquic.tls import CipherSuite, cipher_suite_hash, hkdf_expand_label, hkdf_extract

from tests.dissect import build as b
from tests.dissect.conftest import Row, dissect, rows

DATA = Path(__file__).with_name("data")
MS = b.MS
RFC9000 = "RFC 9000"
ZEROS = bytes(12)


def connections(capture: Path) -> list[Row]:
    """Return its rows of quic_connection without the name of the capture."""
    return [row | {"source_file": ""} for row in rows(capture, "--kind", "quic_connection")]


def said(capture: Path) -> str:
    """Return the dissector's messages about a capture that gives no row."""
    done = dissect(capture, "--kind", "quic_connection", "--kind", "tcp_flow")
    assert (done.returncode, done.stdout) == (0, b"")
    return done.stderr.decode()


def frames_of(capture: Path) -> list[bytes]:
    """Return the frames in a pcap file."""
    data, at, found = capture.read_bytes(), 24, []
    while at < len(data):
        (size,) = struct.unpack_from("<I", data, at + 8)
        found.append(data[at + 16 : at + 16 + size])
        at += 16 + size
    return found


def pcap(path: Path, link: int, frames: list[bytes]) -> Path:
    """Write frames 20 ms apart, from the same second as the files in `data/`."""
    parts = [struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, link)]
    first = struct.unpack_from("<I", (DATA / "02-plain.pcap").read_bytes(), 24)[0]
    for number, frame in enumerate(frames):
        parts.append(struct.pack("<IIII", first, number * 20_000, len(frame), len(frame)) + frame)
    path.write_bytes(b"".join(parts))
    return path


def tshark(capture: Path, name: str, *options: str) -> list[str]:
    """Return a field of each QUIC frame as tshark sees it."""
    argv = ["tshark", "-r", str(capture), "-Y", "quic", "-T", "fields", "-e", name, *options]
    done = subprocess.run(argv, capture_output=True, check=True, text=True)
    return done.stdout.splitlines()


# Encapsulations (fault 2). Each wraps an IPv4 packet.


def eth(kind: int, body: bytes) -> bytes:
    """Return an Ethernet frame."""
    return ZEROS + struct.pack("!H", kind) + body


def outer(protocol: int, body: bytes) -> bytes:
    """Return an Ethernet frame with an IPv4 packet between routers."""
    return eth(0x0800, b.ip("192.0.2.1", "192.0.2.2", protocol, body))


def in_udp(port: int, body: bytes) -> bytes:
    """Return an Ethernet frame with a UDP datagram between routers."""
    return eth(0x0800, b.udp(("192.0.2.1", 5000), ("192.0.2.2", port), body))


def gtp(body: bytes, flags: int = 0x30, extra: bytes = b"") -> bytes:
    """Return a GTP-U message."""
    head = struct.pack("!BBHI", flags, 0xFF, len(extra + body), 7)
    return in_udp(2152, head + extra + body)


GRE_KEY_AND_SEQUENCE = struct.pack("!HHII", 0x3000, 0x0800, 1, 2)
TUNNELS: list[tuple[str, int, Callable[[bytes], bytes], str]] = [
    ("GRE", 1, lambda p: outer(47, b"\0\0\x08\0" + p), "RFC 2784"),
    ("GRE with key and sequence number", 1, lambda p: outer(47, GRE_KEY_AND_SEQUENCE + p), "RFC 2890"),
    ("Ethernet in GRE", 1, lambda p: outer(47, b"\0\0\x65\x58" + eth(0x0800, p)), "RFC 7637"),
    ("ERSPAN", 1, lambda p: outer(47, b"\x10\0\x88\xbe\0\0\0\1\x10\1" + bytes(6) + eth(0x0800, p)), "tshark"),
    ("IP in IP", 1, lambda p: outer(4, p), "RFC 2003"),
    ("IP in IP in IP", 1, lambda p: outer(4, b.ip("192.0.2.3", "192.0.2.4", 4, p)), "RFC 2003"),
    ("4in6", 1, lambda p: eth(0x86DD, b.ip("2001:db8::1", "2001:db8::2", 4, p)), "RFC 2473"),
    ("EtherIP", 1, lambda p: outer(97, b"\x30\0" + eth(0x0800, p)), "RFC 3378"),
    ("two MPLS labels", 1, lambda p: eth(0x8847, b"\0\1\0\x40\0\2\1\x40" + p), "RFC 3032"),
    ("MPLS in GRE", 1, lambda p: outer(47, b"\0\0\x88\x47\0\2\1\x40" + p), "RFC 4023"),
    ("VXLAN", 1, lambda p: in_udp(4789, b"\x08\0\0\0\0\0\1\0" + eth(0x0800, p)), "RFC 7348"),
    (
        "Geneve with an option",
        1,
        lambda p: in_udp(6081, b"\1\0\x65\x58\0\0\1\0" + bytes(4) + eth(0x0800, p)),
        "RFC 8926",
    ),
    ("GTP-U", 1, gtp, "3GPP TS 29.281"),
    ("GTP-U with an extension header", 1, lambda p: gtp(p, 0x34, b"\0\0\0\x85\1\0\x09\0"), "3GPP TS 29.281"),
    ("802.1BR", 1, lambda p: eth(0x893F, b"\0\0\0\1\0\0\x08\0" + p), "IEEE 802.1BR"),
    ("802.1ah", 1, lambda p: eth(0x88E7, b"\0\0\0\1" + eth(0x0800, p)), "IEEE 802.1ah"),
    ("Cisco HDLC", 104, lambda p: b"\x0f\0\x08\0" + p, "tcpdump, LINKTYPE_C_HDLC"),
    ("Cisco HDLC called PPP", 50, lambda p: b"\x0f\0\x08\0" + p, "tcpdump, LINKTYPE_PPP_HDLC"),
]


def test_an_encapsulated_exchange_has_the_rows_of_the_plain_one(tmp_path: Path) -> None:
    plain = DATA / "02-plain.pcap"
    expected = connections(plain)
    assert [row["first_answer"] for row in expected] == ["coalesced"]
    recorded = sorted(DATA.glob("02-*.pcap"))
    assert len(recorded) == 8
    packets = [frame[14:] for frame in frames_of(plain)]
    built = [
        pcap(tmp_path / f"{name}.pcap", link, [wrap(packet) for packet in packets])
        for name, link, wrap, _ in TUNNELS
    ]
    done = rows(*recorded, *built, "--kind", "quic_connection")
    assert [row["source_file"] for row in done] == [str(path) for path in recorded + built]
    for row in done:
        assert [row | {"source_file": ""}] == expected, row["source_file"]


def test_tshark_reads_these_encapsulations_alike(tmp_path: Path) -> None:
    client, _ = (frame[14:] for frame in frames_of(DATA / "02-plain.pcap"))
    over_ethernet = [wrap(client) for _, link, wrap, _ in TUNNELS if link == 1]
    capture = pcap(tmp_path / "all.pcap", 1, over_ethernet)
    assert tshark(capture, "quic.dcid") == ["1122334455667788"] * len(over_ethernet)


UNREAD = [
    ("ESP", outer(50, bytes(40)), "ESP: 1"),
    ("MACsec", eth(0x88E5, bytes(40)), "MACsec: 1"),
    ("NSH", eth(0x894F, bytes(40)), "NSH: 1"),
    ("L2TPv3", outer(115, bytes(40)), "L2TPv3: 1"),
    ("WCCP in GRE", outer(47, b"\0\0\x88\x3e" + bytes(40)), "EtherType 0x883e: 1"),
]


def test_frames_that_are_not_read_are_counted_by_protocol(tmp_path: Path) -> None:
    arp, igmp = eth(0x0806, bytes(28)), outer(2, bytes(8))
    capture = pcap(tmp_path / "all.pcap", 1, [frame for _, frame, _ in UNREAD] + [arp, igmp])
    message = said(capture)
    assert f"of 7 frames, {len(UNREAD)} frames of protocols that are not read (" in message
    for name, _, words in UNREAD:
        assert words in message, name
    # Neither carries UDP or TCP, so there is no warning.
    assert said(pcap(tmp_path / "control.pcap", 1, [arp, igmp])) == ""


# Extension frames (fault 8): 1-RTT packets under secrets that a key log holds.


def context(secret: bytes) -> CryptoContext:
    """Return a context that encrypts packets under a traffic secret."""
    sealing = CryptoContext()
    sealing.setup(cipher_suite=CipherSuite.AES_128_GCM_SHA256, secret=secret, version=b.V1)
    return sealing


SECRETS = {"CLIENT_TRAFFIC_SECRET_0": b"\1" * 32, "SERVER_TRAFFIC_SECRET_0": b"\2" * 32}


def one_rtt(frames: bytes, number: int = 0) -> bytes:
    """Return a 1-RTT packet of the server."""
    frames += bytes(4)  # the sample of header protection needs as much
    head = b"\x41" + b.CLIENT_CID + number.to_bytes(2, "big")
    return context(SECRETS["SERVER_TRAFFIC_SECRET_0"]).encrypt_packet(head, frames, number)


def answered(path: Path, *packets: bytes, mark: bytes = b"") -> Path:
    """Write an exchange, 1-RTT packets of the server, and a key log that starts with `mark`."""
    capture = b.CaptureBuilder().sent(0, b.hello_datagram())
    capture.came(9 * MS, b.initial(b.ack() + b.crypto(b.server_hello()), 0))
    for number, packet in enumerate(packets):
        capture.came((20 + number) * MS, packet)
    random = bytes(range(32)).hex()
    lines = [f"{label} {random} {secret.hex()}\n" for label, secret in SECRETS.items()]
    path.with_suffix(".keys").write_bytes(mark + "".join(lines).encode())
    return capture.write(path)


def stream(size: int = 100) -> bytes:
    """Return a STREAM frame with its length."""
    return b"\x0a\0" + struct.pack("!H", 0x4000 | size) + bytes(size)


# A frame's type and fields, and the draft that defines it.
EXTENSIONS = [
    (b"\x42\xf5\x80\0\1\0", "TIME_STAMP, draft-huitema-quic-ts-08 section 3"),
    (b"\x40\xaf\1\2\x40\x64\1", "ACK_FREQUENCY, draft-ietf-quic-ack-frequency-11 section 4"),
    (b"\x1f", "IMMEDIATE_ACK, draft-ietf-quic-ack-frequency-11 section 5"),
    (b"\x24\4\0\x0a\5", "RESET_STREAM_AT, draft-ietf-quic-reliable-stream-reset-07 section 4"),
    (b"\x31\0", "DATAGRAM, RFC 9221 section 4"),
    (b"\x3e\0\0\0\0\0", "PATH_ACK, draft-ietf-quic-multipath-17 section 4.1"),
    (b"\x95\x22\x8c\x0c\7", "MAX_PATH_ID, draft-ietf-quic-multipath-11 section 4.6"),
    (b"\x80\0\xeb\xd9\1\2\3\4\xc0\0\2\1", "BDP, as picoquic sends it"),
]
DEPENDENT = ("payload_bytes_server", "retransmission_rate", "handshake_done_us", "anrw_goodput_bps")


def test_extension_frames_change_nothing(tmp_path: Path) -> None:
    with_frames, without = (connections(DATA / f"08-{word}.pcap") for word in ("with", "without"))
    assert [row["payload_bytes_server"] for row in without] == [10_000]
    # A frame more makes packets longer.
    sizes = ("ip_bytes", "anrw", "download", "retransm", "amplification", "unvalidated", "upload")
    for name, value in without[0].items():
        if not name.startswith(sizes):
            assert with_frames[0][name] == value, name
    for number, (frame, source) in enumerate(EXTENSIONS):
        [row] = connections(answered(tmp_path / f"{number}.pcap", one_rtt(frame + stream() + b"\x1e")))
        found = tuple(row[name] for name in ("packets_not_understood", *DEPENDENT[:3]))
        assert found == (0, 100, 0.0, 20_000), source


UNKNOWN = b"\x42\xf6\x09"


def test_an_unknown_frame_hides_what_follows_it_and_nothing_before(tmp_path: Path) -> None:
    # RFC 9000 12.4: its length cannot be known. Columns that depend on later frames are null, never zero.
    hidden = one_rtt(stream() + UNKNOWN + b"\x1e")
    [row] = connections(answered(tmp_path / "first.pcap", hidden, one_rtt(b"\x1e", 1)))
    assert [row["packets_not_understood"], *(row[name] for name in DEPENDENT)] == [1, None, None, None, None]
    assert row["first_stream_us"] == 20_000
    # HANDSHAKE_DONE arrived before.
    [row] = connections(answered(tmp_path / "later.pcap", one_rtt(b"\x1e"), one_rtt(UNKNOWN, 1)))
    assert (row["packets_not_understood"], row["handshake_done_us"]) == (1, 20_000)
    assert (row["first_stream_us"], row["rtt_samples"]) == (None, None)
    # A broken frame makes its whole packet doubtful.
    [row] = connections(answered(tmp_path / "broken.pcap", one_rtt(b"\x1e\x18\1\2\0")))
    assert (row["packets_not_understood"], row["handshake_done_us"]) == (1, None)
    [packet] = [
        packet
        for packet in rows(tmp_path / "first.pcap", "--kind", "quic_packet")
        if "unknown frame" in (packet["frames"] or "")
    ]
    assert packet["frames"] == "stream 0 0+100; unknown frame type 0x2f6"


def test_a_key_log_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    # Unicode 16.0, section 23.8: U+FEFF at the start of a text is not part of the text.
    [row] = connections(answered(tmp_path / "mark.pcap", one_rtt(stream()), mark=b"\xef\xbb\xbf"))
    assert (row["payload_bytes_server"], row["undecrypted_packets"]) == (100, 0)


# Single captures: faults 1, 7, 14, and frames that a mirror port duplicates.


class CaptureCase(NamedTuple):
    """A capture, its expected rows, and their source."""

    kind: str
    write: Callable[[Path], Path]
    expected: list[dict[str, Any]]
    source: str


def recorded(name: str) -> Callable[[Path], Path]:
    """Return a function that returns a capture of `data/`."""
    return lambda _: DATA / name


def halves(*acks: tuple[int, bytes]) -> Callable[[Path], Path]:
    """Return a function that writes a ClientHello in two datagrams, 5 ms apart, and the server's Initials."""
    capture = b.CaptureBuilder()
    for number, (at_ms, data, offset) in enumerate([(0, b.HELLO[:100], 0), (5, b.HELLO[100:], 100)]):
        frames = b.crypto(data, offset)
        capture.sent(at_ms * MS, b.initial(frames, number, from_client=True, pad_to=1252))
    for number, (at_ms, frames) in enumerate(acks):
        capture.came(at_ms * MS, b.initial(frames, number, pad_to=1200))
    return capture.write


def twice() -> Callable[[Path], Path]:
    """Return a function that writes an exchange as a mirror port captures it, with each frame twice."""
    capture = b.CaptureBuilder()
    for us in (0, 3):
        capture.sent(us * 1000, b.hello_datagram())
    for number, frames in enumerate([b.ack(), b.crypto(b.server_hello())]):
        for us in (0, 3):
            came_ns = (9 + number) * MS + us * 1000
            capture.came(came_ns, b.initial(frames, number, pad_to=1200))
    return capture.write


def dns(identifier: int, size: int) -> Callable[[Path], Path]:
    """Return a function that writes a DNS query with padding (RFC 7830) to UDP port 443, and an answer."""
    head = struct.pack("!HHHHHH", identifier, 0x0100, 1, 0, 0, 1)
    query = head + b"\7example\3net\0\0\1\0\1" + b"\0\0\x29\4\xd0\0\0\0\0"
    query += struct.pack("!H", size - len(query) - 2) + bytes(size - len(query) - 2)
    return b.CaptureBuilder().sent(0, query).came(9 * MS, query[:40]).write


def early(at_ms: int, odcid: bytes = b.ODCID, port: int = 443) -> Callable[[Path], Path]:
    """Return a function that writes a 0-RTT packet at `at_ms`, and its Initial at 5 ms."""
    head = b"\xd0" + struct.pack("!I", b.V1) + bytes([len(odcid)]) + odcid + b"\x08" + b.CLIENT_CID
    sealed = head + struct.pack("!H", 0x4000 | 300) + bytes(i * 31 & 0xFF for i in range(300))
    capture = b.CaptureBuilder(server=("198.51.100.1", port))
    return capture.sent(at_ms * MS, sealed).sent(5 * MS, b.hello_datagram()).came(9 * MS, ANSWER).write


ANSWER = b.initial(b.ack() + b.crypto(b.server_hello()), 0, pad_to=1200)
PARTIAL = {"first_answer": "timeout", "ack_us": None, "detail": None}
CASES = [
    # RFC 9000 13.2.1: servers acknowledge each ack-eliciting Initial immediately, also the first of several.
    CaptureCase(
        "a partial ACK alone",
        recorded("01-partial_ack.pcap"),
        [PARTIAL | {"partial_ack_us": 19_950}],
        f"{RFC9000} 13.2.1; the handshake engine",
    ),
    CaptureCase(
        "a partial ACK before the rest was sent",
        halves((3, b.ack())),
        [PARTIAL | {"partial_ack_us": 3_000}],
        f"{RFC9000} 13.2.1",
    ),
    CaptureCase(
        "a partial ACK, and the whole one",
        halves((3, b.ack()), (9, b.ack(1, first_range=1))),
        [{"first_answer": "ack_only", "partial_ack_us": 3_000, "ack_us": 4_000}],
        f"{RFC9000} 13.2.1",
    ),
    CaptureCase("DNS to port 443", recorded("07-dns443.pcap"), [], f"{RFC9000} 7.2; tshark: dns"),
    CaptureCase("DNS, another identifier", dns(0xC001, 1232), [], f"{RFC9000} 7.2"),
    CaptureCase("DNS that names version 1", dns(0xD100, 1400), [], f"{RFC9000} 7.2"),
    CaptureCase(
        "0-RTT after its Initial",
        recorded("14-initial_first.pcap"),
        [{"packets_client": 2, "undecrypted_packets": 1, "client_hello_us": 0}],
        "tshark, Zeek: one connection",
    ),
    CaptureCase(
        "0-RTT before its Initial",
        recorded("14-zero_first.pcap"),
        [{"packets_client": 2, "undecrypted_packets": 1, "client_hello_us": 100}],
        "tshark, Zeek: one connection",
    ),
    CaptureCase(
        "0-RTT before its Initial, on another port",
        early(2, port=8443),
        [{"packets_client": 2, "datagrams_client": 2, "client_hello_us": 3_000, "first_answer": "coalesced"}],
        f"{RFC9000} 12.2: packets may overtake each other",
    ),
    CaptureCase(
        "0-RTT of another connection",
        early(2, odcid=b"\x99" * 8),
        [{"packets_client": 1, "client_hello_us": 0}],
        f"{RFC9000} 17.2.3: its connection ID is that of the first Initial",
    ),
    CaptureCase(
        "each frame twice",
        twice(),
        [{"bytes_received": 2400, "datagrams_received": 2, "first_answer": "iack", "client_hello_copies": 1}],
        f"{RFC9000} 12.3: no sender uses a packet number twice",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.kind)
def test_rows_of_a_capture(case: CaptureCase, tmp_path: Path) -> None:
    found = connections(case.write(tmp_path / "x.pcap"))
    shown = [
        {name: row[name] for name in expected_row}
        for row, expected_row in zip(found, case.expected, strict=True)
    ]
    assert shown == case.expected, case.source


def test_tshark_sees_a_0_rtt_packet_before_its_initial() -> None:
    assert tshark(DATA / "14-zero_first.pcap", "quic.long.packet_type") == ["1", "0", "0"]


# Versions with published salts, and unsupported versions.


def hello_of(version: int, salt: bytes, odcid: bytes) -> bytes:
    """Return a client's Initial of `version` with a ClientHello, sealed from its salt."""
    initial_suite = CipherSuite.AES_128_GCM_SHA256
    algorithm = cipher_suite_hash(initial_suite)
    secret = hkdf_expand_label(algorithm, hkdf_extract(algorithm, salt, odcid), b"client in", b"", 32)
    sealing = CryptoContext()
    sealing.setup(cipher_suite=initial_suite, secret=secret, version=b.V1)
    head = b"\xc1" + struct.pack("!I", version) + b"\x08" + odcid + b"\x08" + odcid[::-1] + b"\0"
    frames = b.crypto(b.HELLO)
    frames += bytes(1252 - len(head) - 4 - 16 - len(frames))
    head += struct.pack("!HH", 0x4000 | 2 + len(frames) + 16, 0)
    return sealing.encrypt_packet(head, frames, 0)


# draft-ietf-quic-tls, section 5.2 of each.
DRAFT_22 = bytes.fromhex("7fbcdb0e7c66bbe9193a96cd21519ebd7a02644a")
DRAFT_23 = bytes.fromhex("c3eef712c72ebb5a11a7d2432bb46365bef9f502")
DRAFT_29 = bytes.fromhex("afbfec289993d24c9e9786f19c6111e04390a899")
DRAFT_33 = bytes.fromhex("38762cf7f55934b34d179ae6a4c80cadccbb7f0a")
READ = {
    0xFF000016: DRAFT_22,
    0xFF000017: DRAFT_23,
    0xFF00001B: DRAFT_23,
    0xFF00001C: DRAFT_23,
    0xFF00001D: DRAFT_29,
    0xFF000020: DRAFT_29,
    0xFF000021: DRAFT_33,
    0xFF000022: DRAFT_33,
    0xFACEB001: DRAFT_22,
    0xFACEB002: DRAFT_23,
}
NOT_READ = {
    0x51303530: "version of Google QUIC, whose frames are not read",
    0x51303436: "version of Google QUIC, whose frames are not read",
    0xFF000012: "draft before 22, which is not read",
    0x1A2A3A4A: "reserved version, which no server may speak",
    0x12345678: "version without known keys",
}


def versions(path: Path, known: dict[int, bytes], unknown: dict[int, str]) -> Path:
    """Write a ClientHello of each version, from another port each."""
    capture = b.CaptureBuilder()
    for number, (version, salt) in enumerate((known | dict.fromkeys(unknown, DRAFT_33)).items()):
        capture.client = ("192.0.2.10", 40000 + number)
        capture.sent(number * MS, hello_of(version, salt, bytes([number]) + bytes(range(7))))
    return capture.write(path)


def test_versions_with_published_salts_are_read(tmp_path: Path) -> None:
    capture = versions(tmp_path / "read.pcap", READ, {})
    found = {row["version"]: row["sni"] for row in connections(capture)}
    assert found == dict.fromkeys((f"{version:#010x}" for version in READ), "www.example.net")
    # tshark has its own table of salts.
    assert tshark(capture, "tls.handshake.extensions_server_name") == ["www.example.net"] * len(READ)


def test_an_unread_version_is_reported_with_its_reason(tmp_path: Path) -> None:
    capture = versions(tmp_path / "other.pcap", {}, NOT_READ)
    found = {row["version"]: (row["detail"], row["sni"]) for row in connections(capture)}
    assert found == {f"{version:#010x}": (why, None) for version, why in NOT_READ.items()}
