"""The first answers of the real stacks and their times, read by a client that parses every packet."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import pytest

from tests.waiting import PATIENCE_S, until

from .conftest import (
    AIOQUIC_DELAY_US,
    CERTIFICATE_DELAY_US,
    QUICHE_DELAY_US,
    QUICHE_DELAYS_US,
    SECOND_DELAY_US,
)
from .reader import HELLO_RETRY_RANDOM, InitialClient, ReceivedDatagram, gap_us
from .running import HOST, RunningServer

# How long to wait, after the last expected datagram, for unexpected or optional ones.
SILENCE_S = 0.15


def ask(
    server: RunningServer, name: str | None, ip: str = HOST, patience: float = PATIENCE_S, datagrams: int = 1
) -> list[ReceivedDatagram]:
    """Run one probe: send a ClientHello, read at least `datagrams` answers, and close.

    Also reads further answers within SILENCE_S. After a Retry, returns the answers to the token.
    """
    with InitialClient(ip, server.port, name) as client:
        client.send_hello()
        answers = client.read(patience, until=1)
        if answers and answers[0].packets[0].kind == "retry":
            assert answers[0].packets[0].opened, "the integrity tag is wrong"
            client.follow_retry(answers[0])
            answers = client.read(patience, until=1)
        answers += client.read(patience, until=datagrams - 1)
        answers += client.read(SILENCE_S)
        client.send_close()
        assert {answer.source for answer in answers} <= {ip}
        return answers


def first_gap_us(answers: list[ReceivedDatagram]) -> float:
    """Return the time from the first datagram to the second."""
    return answers[1].at_us - answers[0].at_us


def waits(
    server: RunningServer, name: str, delay_us: float, gap: Callable[[list[ReceivedDatagram]], float] = gap_us
) -> bool:
    """Return whether the second answer arrives at least `delay_us` after the first.

    A late timestamp of the first answer shortens the gap. The longest gap of several tries is only too short
    if the server sends early every time.
    """
    return max(gap(ask(server, name, datagrams=2)) for _ in range(7)) >= delay_us


def opened(answers: list[ReceivedDatagram]) -> None:
    """Check that every Initial is decrypted and that all packets are Initial, Handshake or 1-RTT."""
    for packet in (packet for answer in answers for packet in answer.packets):
        assert packet.kind in ("initial", "handshake", "one_rtt")
        assert packet.kind != "initial" or (packet.opened and not packet.parse_error)


@pytest.mark.parametrize("size", ["small", "large"])
@pytest.mark.parametrize("mode", ["iack", "retry-iack"])
def test_quiche_acknowledges_at_once(quiche: RunningServer, mode: str, size: str) -> None:
    answers = ask(quiche, f"{mode}.{size}.test", datagrams=2)
    opened(answers)
    assert answers[0].frames() == ["ack"]
    assert answers[0].size == 1200
    assert answers[1].has_server_hello
    assert answers[1].has_handshake
    assert not answers[1].has_ack
    assert waits(quiche, f"{mode}.{size}.test", QUICHE_DELAY_US)


@pytest.mark.parametrize("delay_us", QUICHE_DELAYS_US)
def test_the_declared_delay_is_kept(quiche: RunningServer, delay_us: int) -> None:
    """The median gap equals the declared delay within 0.2 ms, to detect a timer that rounds or adds.

    On loopback, the kernel takes the receive timestamps while the server sends. A timestamp is late only if
    the server loses the core, and the server runs at real-time priority.
    """
    gaps = []
    for _ in range(60):
        with InitialClient(HOST, quiche.port, f"after-{delay_us}.small.test") as client:
            client.send_hello()
            gaps.append(gap_us(client.read(PATIENCE_S, until=2)))
            client.send_close()
    assert is_kept(gaps, delay_us), sorted(gaps)
    for fault_us in (500, -500):  # half a tick of a timer of 1 ms
        assert not is_kept([gap + fault_us for gap in gaps], delay_us)


def is_kept(gaps: list[float], delay_us: float) -> bool:
    """Return whether the median gap is the declared delay."""
    return abs(statistics.median(gaps) - delay_us) <= 200


@pytest.mark.parametrize(
    ("server", "name", "delay_us"),
    [
        ("quiche", "wait.small.test", 4000),
        ("quiche", "wait.large.test", 4000),
        ("quiche", "retry.small.test", 0),
        ("aioquic", "wait.small.test", 4000),
        ("aioquic", "wait.large.test", 4000),
        ("quic-go", "wait.small.test", 4000),
        ("quic-go", "wait.large.test", 4000),
    ],
    indirect=["server"],
)
def test_a_waiting_server_sends_all_at_once(server: RunningServer, name: str, delay_us: int) -> None:
    # The amplification limit stops a large flight after three datagrams, or four with some stacks.
    answers = ask(server, name, datagrams=3 if "large" in name else 1)
    opened(answers)
    first = answers[0]
    assert first.has_ack
    assert first.has_server_hello
    assert first.has_handshake
    assert first.at_us >= delay_us
    if "large" in name:
        credit = 3 * 1252
        # quic-go checks the limit before each datagram, without the datagram's size.
        last = first.size if server.stack == "quic-go" else 0
        assert sum(answer.size for answer in answers) <= credit + last
        assert sum(answer.size for answer in answers) > 2 * 1252


def test_quiche_asks_for_another_key_share(quiche: RunningServer) -> None:
    answers = ask(quiche, "hello-retry.small.test")
    opened(answers)
    answer, *later = answers
    assert answer.frames() == ["ack", "crypto"]
    # On a busy machine, the server may retransmit before the client closes.
    repeated = [piece for later_answer in later for packet in later_answer.packets for piece in packet.crypto]
    assert all(piece == answer.packets[0].crypto[0] for piece in repeated)
    (_, hello) = answer.packets[0].crypto[0]
    assert hello[0] == 2
    assert hello[6:38] == HELLO_RETRY_RANDOM


def test_quiche_sends_its_certificate_late(quiche: RunningServer) -> None:
    answers = ask(quiche, "sh-then-certificate.large.test", datagrams=2)
    opened(answers)
    assert answers[0].frames() == ["ack", "crypto"]
    assert not answers[0].has_handshake
    assert answers[1].has_handshake
    assert waits(quiche, "sh-then-certificate.large.test", CERTIFICATE_DELAY_US, first_gap_us)


def test_aioquic_acknowledges_at_once_without_padding(aioquic: RunningServer) -> None:
    answers = ask(aioquic, "iack.small.test", datagrams=2)
    opened(answers)
    assert answers[0].frames() == ["ack"]
    assert answers[0].size < 100
    assert answers[1].has_server_hello
    assert waits(aioquic, "iack.small.test", AIOQUIC_DELAY_US)


def test_the_address_and_the_name_decide(quiche: RunningServer) -> None:
    def declared(name: str | None, ip: str) -> float:
        """Return the answering endpoint's delay: the declared delay closest to the median gap."""
        gap = statistics.median(gap_us(ask(quiche, name, ip, datagrams=2)) for _ in range(9))
        return min((QUICHE_DELAY_US, SECOND_DELAY_US), key=lambda delay_us: abs(gap - delay_us))

    assert declared("second.small.test", "127.0.0.2") == SECOND_DELAY_US
    # Unknown and missing names get the first endpoint of the address: iack.small.test.
    for name in ("nobody.example", None):
        assert declared(name, HOST) == QUICHE_DELAY_US
    assert ask(quiche, "six.small.test", "::1")[0].has_server_hello


def test_nothing_arrives_after_the_close(
    quiche: RunningServer, aioquic: RunningServer, quicgo: RunningServer
) -> None:
    """Waits long enough to detect a server that retransmits after 1 s (its first probe timeout)."""
    talking = [quiche, aioquic, quicgo]
    # A server that is suspended until its probe timeout may send once more before it reads the close. A
    # server that ignores the close sends every time.
    for _ in range(5):
        talking = still_talking_after_close(talking)
        if not talking:
            break
    assert talking == []


def still_talking_after_close(servers: list[RunningServer]) -> list[RunningServer]:
    """Return the servers that still send after they received a close."""
    clients = []
    for server in servers:
        client = InitialClient(HOST, server.port, "wait.small.test")
        client.send_hello()
        assert client.read(PATIENCE_S, until=1)
        client.read(SILENCE_S)
        client.send_close()
        clients.append((server, client))
    time.sleep(1.3)
    talking = []
    for server, client in clients:
        with client:
            if client.read(0.1):
                talking.append(server)
    return talking


@pytest.mark.parametrize("server", ["quiche", "aioquic", "quic-go", "rogue"], indirect=True)
def test_garbage_is_survived(server: RunningServer) -> None:
    """After datagrams of many sizes and first bytes and damaged Initials, the server still answers."""
    name = "split-packets.small.test" if server.stack == "rogue" else "wait.small.test"
    with InitialClient(HOST, server.port, name) as client:
        for first in range(256):
            client.socket.sendto(bytes([first]) * (1 + 7 * first), client.address)
        initial = client.client_hello_packet()
        for cut in (1, 5, 20, 40, 1199):
            client.socket.sendto(initial[:cut], client.address)
        for place in range(0, 1200, 13):
            damaged = bytearray(initial)
            damaged[place] ^= 0x55
            client.socket.sendto(damaged, client.address)
        client.socket.sendto(initial[:1] + bytes(4) + initial[5:], client.address)
    assert server.process.poll() is None
    # The burst may have filled the socket's buffer: retransmit, as clients do.
    until(
        lambda: any(answer.has_server_hello for answer in ask(server, name, patience=0.5)),
        "a proper answer",
        PATIENCE_S,
    )


@pytest.mark.parametrize("server", ["quiche", "aioquic", "quic-go"], indirect=True)
def test_an_unknown_version_is_negotiated(server: RunningServer) -> None:
    with InitialClient(HOST, server.port, "wait.small.test") as client:
        packet = bytearray(client.client_hello_packet())
        packet[1:5] = bytes.fromhex("5a5a5a5a")
        client.socket.sendto(packet, client.address)
        (answer,) = client.read(PATIENCE_S, until=1)
        assert [packet.kind for packet in answer.packets] == ["version_negotiation"]
        assert answer.packets[0].header.source_cid == client.dcid
        assert 1 in answer.packets[0].header.supported_versions
