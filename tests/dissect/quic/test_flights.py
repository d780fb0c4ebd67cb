"""The client's flights and the server's wait, computed from the packets that tshark reads."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from testbed.trials.captures import second_flight
from testbed.trials.captures.packets import has_stream
from tests.dissect import build as b
from tests.dissect import tshark
from tests.dissect.build import MS
from tests.dissect.conftest import FIXTURES, Row, rows

QUIC = FIXTURES.parent / "quic"
CAPTURES = sorted([*FIXTURES.glob("*.pcap"), *QUIC.glob("*.pcap")])
# Several connections, and QUIC version 2, which numbers the types of long headers differently.
NOT_COMPARED = {"quicgo_port_reuse", "quiche_version_negotiation", "quicgo_version_2"}
COMPARED = [path for path in CAPTURES if path.stem not in NOT_COMPARED]
# tshark finds no connection for some packets that share a datagram.
NOT_OPENED = {"quicgo_loss", "quicgo_retry", "quiche_loss", "quiche_retry_iack"}
# tshark 4.0 fails on 1-RTT packets with AES-256-GCM after the first.
NOT_OPENED |= {"aioquic"} if tshark.version() == (4, 0) else set()
NOT_ELICITING = {"padding", "ack", "connection_close", "application_close"}


@dataclass(frozen=True)
class FlightDatagram:
    """A datagram in a connection and its packets as tshark reads them."""

    ns: int
    from_client: bool
    length: int
    packets: tuple[tshark.TsharkPacket, ...]


@cache
def datagrams(capture: Path) -> list[FlightDatagram]:
    """Return the datagrams in a capture with one connection. The first datagram is the client's."""
    fields = ("frame.number", "frame.time_epoch", "udp.srcport", "udp.dstport", "udp.length")
    argv = ["tshark", "-r", str(capture), "-Y", "quic && !icmp", "-T", "fields"]
    argv += [word for field in fields for word in ("-e", field)]
    lines = subprocess.run(argv, capture_output=True, check=True, text=True).stdout.splitlines()
    packets = tshark.packets(capture, capture.with_suffix(".keys"))
    server = lines[0].split("\t")[3]
    found = []
    for line in lines:
        number, epoch, source, _, length = line.split("\t")
        seconds, fraction = epoch.split(".")
        in_datagram = tuple(packet for packet in packets if packet.frame_number == int(number))
        ns = int(seconds) * 10**9 + int(fraction.ljust(9, "0"))
        found.append(FlightDatagram(ns, source != server, int(length.split(",")[0]) - 8, in_datagram))
    return found


def frames(packet: tshark.TsharkPacket) -> list[list[str]]:
    return [text.split() for text in (packet.frames or "").split("; ") if text]


def crypto_offsets(packet: tshark.TsharkPacket) -> set[int]:
    """Return the offset of each byte in a packet's CRYPTO frames."""
    spans = (words[1].split("+") for words in frames(packet) if words[0] == "crypto")
    return {at for offset, length in spans for at in range(int(offset), int(offset) + int(length))}


def initials_again(found: list[FlightDatagram]) -> list[tuple[int, int]]:
    """Return times of the client's ack-eliciting Initials without new CRYPTO bytes, and of the last with."""
    sent: set[int] = set()
    new_ns, repeated = 0, []
    for datagram in (sent_datagram for sent_datagram in found if sent_datagram.from_client):
        for packet in (initial for initial in datagram.packets if initial.type == "initial"):
            if new := crypto_offsets(packet) - sent:
                sent |= new
                new_ns = datagram.ns
            elif any(words[0] not in NOT_ELICITING for words in frames(packet)):
                repeated.append((datagram.ns, new_ns))
    return repeated


def first_ns(found: list[FlightDatagram], kind: str, frame: str) -> int | None:
    """Return the arrival time of the server's first `frame` frame in a packet of type `kind`."""
    for datagram in (received for received in found if not received.from_client):
        for packet in (typed for typed in datagram.packets if typed.type == kind):
            if any(words[0] == frame for words in frames(packet)):
                return datagram.ns
    return None


def of_server_hello(row: Row, found: list[FlightDatagram]) -> int | None:
    us = row["server_hello_us"]
    return (
        None
        if us is None
        else next(datagram.ns for datagram in found if (datagram.ns - found[0].ns) // 1000 == us)
    )


def connection_of(capture: Path) -> tuple[Row, list[FlightDatagram]]:
    (row,) = rows(capture, "--kind", "quic_connection")
    return row, datagrams(capture)


def compare_probes(capture: Path) -> Row:
    """Compare both columns with tshark's packets; return the row."""
    row, found = connection_of(capture)
    repeated = initials_again(found)
    ack_ns, hello_ns = first_ns(found, "initial", "ack"), of_server_hello(row, found)
    if ack_ns is None or hello_ns is None:
        assert row["probes"] is None
    else:
        assert row["probes"] == sum(ack_ns <= ns < hello_ns for ns, _ in repeated)
    heard_ns = next((datagram.ns for datagram in found if not datagram.from_client), None)
    early = [(ns - new_ns) // 1000 for ns, new_ns in repeated if heard_ns is None or ns < heard_ns]
    known = early and row["capture_side"] != "server"
    assert row["default_pto_us"] == (early[0] if known else None)
    return row


@pytest.mark.parametrize("capture", COMPARED, ids=lambda path: path.stem)
def test_probes_and_default_timeout_are_what_the_initials_show(capture: Path) -> None:
    compare_probes(capture)


@pytest.mark.parametrize(("ack_ms", "default_pto_us", "probes"), [(None, 300_000, 0), (1, None, 1)])
def test_a_client_hello_whose_later_bytes_come_first_is_no_probe(
    ack_ms: int | None, default_pto_us: int | None, probes: int, tmp_path: Path
) -> None:
    """Clients may send a ClientHello's last bytes, after its SNI, in the first of two datagrams."""
    hello = b.client_hello(size=1800)
    first = b.crypto(hello[1500:], 1500) + b.crypto(hello[:700])
    capture = b.CaptureBuilder().sent(0, b.initial(first, 0, from_client=True, pad_to=1252))
    if ack_ms is not None:
        capture.came(ack_ms * MS, b.initial(b.ack(), 0))
    second = b.crypto(hello[700:1500], 700)
    capture.sent(2 * MS, b.initial(second, 1, from_client=True, pad_to=1252))
    capture.sent(302 * MS, b.initial(b"\x01", 2, from_client=True, pad_to=1252))
    capture.came(340 * MS, b.initial(b.ack(2, first_range=2) + b.crypto(b.server_hello()), 1))
    capture.sent(341 * MS, b.initial(b.ack(1), 3, from_client=True, pad_to=1252))
    path = capture.write(tmp_path / "later.pcap")
    path.with_suffix(".keys").touch()
    row = compare_probes(path)
    assert (row["default_pto_us"], row["probes"]) == (default_pto_us, probes)


@pytest.mark.parametrize("capture", COMPARED, ids=lambda path: path.stem)
def test_second_flight_and_request_are_those_of_the_frames(capture: Path) -> None:
    row, found = connection_of(capture)
    packets = rows(capture, "--kind", "quic_packet")
    numbers = second_flight.indices(packets)
    client = [datagram for datagram in found if datagram.from_client]
    first = next((i for i, d in enumerate(client, 1) if any(p.type == "handshake" for p in d.packets)), None)
    assert row["second_flight_first"] == first == (numbers[0] if numbers else None)
    sent = [packet for packet in packets if packet["from_client"]]
    has_streams = any(has_stream(packet["frames"]) for packet in sent)
    assert row["second_flight_last"] == (numbers[-1] if numbers and has_streams else None)
    theirs = [packet for datagram in found for packet in datagram.packets]
    assert all(packet.frames for packet in theirs) == (capture.stem not in NOT_OPENED)
    if capture.stem in NOT_OPENED:
        return
    streams = ((i, d) for i, d in enumerate(client, 1) for p in d.packets if has_stream(p.frames))
    last = next((i for i, _ in streams if first is not None and i >= first), None)
    assert row["second_flight_last"] == last
    requested = (
        datagram.ns
        for datagram in found
        if not datagram.from_client
        for packet in datagram.packets
        if any(words[0] == "stream" and int(words[1]) % 4 == 0 for words in frames(packet))
    )
    response_ns = next(requested, None)
    expected = None if response_ns is None else (response_ns - found[0].ns) // 1000
    assert row["first_request_stream_us"] == expected


def blocked_us(row: Row, found: list[FlightDatagram]) -> int:
    """Return how long the server was blocked, by another way than the dissector's: datagram by datagram."""
    first_ns = next(datagram.ns for datagram in found if not datagram.from_client)
    path_ns = min(row["rtt_min_us"] * 1000, first_ns - found[0].ns) if row["capture_side"] == "client" else 0
    highest: dict[str, int] = {}
    blocked_ns = sent = 0
    last_ns: int | None = None
    validated_ns: int | None = None
    for i, datagram in enumerate(found):
        if datagram.from_client:
            if validated_ns is None and any(packet.type == "handshake" for packet in datagram.packets):
                validated_ns = datagram.ns
            continue
        is_new = False
        for packet in datagram.packets:
            for words in frames(packet):
                if words[0] not in ("crypto", "stream"):
                    continue
                name = f"{packet.type} crypto" if words[0] == "crypto" else words[1]
                offset, length = map(int, words[1 if words[0] == "crypto" else 2].split("+"))
                is_new |= offset + length > highest.get(name, -1)
                highest[name] = max(offset + length, highest.get(name, 0))
        came_ns = [
            earlier.ns + path_ns
            for earlier in found[:i]
            if earlier.from_client
            for _ in range(earlier.length)
        ]
        now = 3 * sum(ns <= datagram.ns for ns in came_ns)
        is_valid = validated_ns is not None and datagram.ns >= validated_ns + path_ns
        if last_ns is not None and is_new:
            before = 3 * sum(ns <= last_ns for ns in came_ns)
            seen = any(earlier.from_client and last_ns <= earlier.ns for earlier in found[:i])
            heard = is_valid or (seen if path_ns == 0 else datagram.ns - last_ns >= path_ns / 2)
            waited = sent + datagram.length > before and (sent + datagram.length <= now or heard)
            blocked_ns += datagram.ns - last_ns if waited else 0
            if (waited and sent + datagram.length > now) or sent >= now:
                break
        if is_valid:
            break
        sent, last_ns = sent + datagram.length, datagram.ns
    return blocked_ns // 1000


def test_the_wait_of_a_server_is_what_its_limit_makes_it() -> None:
    waits = {}
    for capture in COMPARED:
        row, found = connection_of(capture)
        if row["retry"] or row["capture_side"] is None:
            assert row["blocked_us"] is None
        elif capture.stem not in NOT_OPENED:
            assert row["blocked_us"] == blocked_us(row, found), capture.stem
            waits[capture.stem] = row["blocked_us"]
    assert len(waits) > 18
    # The servers' flights exceed three times the ClientHello. quic-go sends its last datagram in full.
    assert {name: us for name, us in waits.items() if us} == {"s2n_at_limit": 7247, "quicgo_at_limit": 7055}


def test_values_of_known_stacks() -> None:
    """The clients of quic-go and quiche have a default probe timeout of 200 ms (docs/testbed.md)."""
    for capture in (FIXTURES / "kwik.pcap", QUIC / "quiche_loss.pcap"):
        row, _ = connection_of(capture)
        assert 200_000 <= row["default_pto_us"] < 210_000
    assert (
        connection_of(QUIC / "quiche_loss.pcap")[0]["probes"]
        == connection_of(QUIC / "quicgo_loss.pcap")[0]["probes"]
        == 4
    )


def test_without_keys_only_what_initials_and_types_show_is_known(tmp_path: Path) -> None:
    for name in ("quicgo_ipv6", "quicgo_loss"):
        capture = tmp_path / f"{name}.pcap"
        capture.write_bytes((QUIC / capture.name).read_bytes())
        (row,) = rows(capture, "--kind", "quic_connection")
        (open_row,) = rows(QUIC / capture.name, "--kind", "quic_connection")
        for column in ("first_request_stream_us", "blocked_us", "second_flight_last"):
            assert row[column] is None and open_row[column] is not None, (name, column)
        for column in ("probes", "second_flight_first"):
            assert row[column] == open_row[column] is not None, (name, column)
