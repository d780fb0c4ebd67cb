"""Every mode of lab/stacks/rogue follows its README, verified with aioquic's packet code."""

from __future__ import annotations

import statistics

import pytest

from tests.waiting import PATIENCE_S

from .conftest import ROGUE_DELAY_US
from .reader import InitialClient, ReceivedDatagram
from .running import HOST, RunningServer


def answers_to(client: InitialClient, datagrams: int = 1) -> list[ReceivedDatagram]:
    """Send the ClientHello; wait for `datagrams` answers, and return these and further ones within 0.1 s."""
    client.send_hello()
    return client.read(PATIENCE_S, until=datagrams) + client.read(0.1)


def ask(server: RunningServer, name: str, datagrams: int = 1) -> list[ReceivedDatagram]:
    with InitialClient(HOST, server.port, name) as client:
        return answers_to(client, datagrams)


def contents(answers: list[ReceivedDatagram]) -> list[list[str]]:
    """Return the packets per datagram: the frames in a decrypted Initial, else the packet's kind."""
    return [
        [
            " ".join(packet.frames) if packet.opened and packet.frames else packet.kind
            for packet in answer.packets
        ]
        for answer in answers
    ]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sh-first.small.test", [["crypto", "handshake"]]),
        ("sh-first-late-ack.small.test", [["crypto", "handshake"], ["ack padding"]]),
        ("ack-only.small.test", [["ack padding"]]),
        ("sh-then-certificate.small.test", [["ack crypto padding"], ["handshake"]]),
        ("split-packets.small.test", [["ack", "crypto", "handshake"]]),
        ("reordered.small.test", [["crypto ping ack", "handshake"]]),
        ("lost-ack.small.test", [["ack crypto", "handshake"]]),
        ("small-ack.small.test", [["ack"], ["crypto", "handshake"]]),
        ("pn-start.small.test", [["ack padding"], ["crypto", "handshake"]]),
        ("pn-start.now.test", [["ack crypto", "handshake"]]),
        ("ack-ecn.small.test", [["ack_ecn padding"], ["crypto", "handshake"]]),
        ("ack-ecn.now.test", [["ack_ecn crypto", "handshake"]]),
        ("ecn-too-many.small.test", [["ack_ecn padding"], ["crypto", "handshake"]]),
        ("ecn-other-mark.now.test", [["ack_ecn crypto", "handshake"]]),
        ("ecn-congested.now.test", [["ack_ecn crypto", "handshake"]]),
        ("ecn-zero.now.test", [["ack_ecn crypto", "handshake"]]),
        ("ecn-decreasing.small.test", [["ack_ecn padding"], ["ack_ecn crypto", "handshake"]]),
        ("retransmit.now.test", [["ack crypto", "handshake"]] + [["crypto"]] * 3 + [["ping padding"]]),
        ("duplicates.now.test", [["ack crypto", "handshake"]] * 3),
        ("duplicates.small.test", [["ack padding"]] * 3 + [["crypto", "handshake"]] * 3),
        ("chatty.now.test", [["ack crypto", "handshake"]] + [["ping padding"]] * 10),
        ("closed.small.test", [["close"]]),
        ("closed-with-ack.small.test", [["ack padding"], ["close"]]),
        ("closed-with-ack.now.test", [["ack close"]]),
        ("amplify.small.test", [["ack crypto padding"], *[["ping padding"]] * 4, ["handshake"]]),
        ("closed-hostile.small.test", [["close"]]),
        ("retry-silent.small.test", [["retry"]]),
        ("retry-long-token.small.test", [["retry"]]),
        ("version-negotiation.small.test", [["version_negotiation"]]),
        ("version-negotiation-own.small.test", [["version_negotiation"]]),
        ("slow-crypto.small.test", [["ack padding"], *[["crypto"]] * 32]),
        ("silent.small.test", []),
        ("malformed-frames.small.test", [["initial"]]),
        ("undecryptable.small.test", [["initial"], ["initial"]]),
        (
            "forged.small.test",
            [
                ["initial"],
                ["retry"],
                ["version_negotiation"],
                ["initial"],
                ["initial"],
                ["ack crypto", "handshake"],
            ],
        ),
    ],
)
def test_datagrams(rogue: RunningServer, name: str, expected: list[list[str]]) -> None:
    assert contents(ask(rogue, name, len(expected))) == expected


def test_endless_crypto_continues(rogue: RunningServer) -> None:
    first, *later = contents(ask(rogue, "endless-crypto.small.test", 20))
    assert first == ["ack crypto padding"]
    assert len(later) >= 19 and all(content == ["crypto padding"] for content in later), later


@pytest.mark.parametrize(
    ("name", "first", "second"),
    [
        ("sh-first-late-ack", 0, 1),
        ("sh-then-certificate", 0, 1),
        ("small-ack", 0, 1),
        ("closed-with-ack", 0, 1),
        ("forged", 4, 5),
    ],
)
def test_the_delay_is_kept(rogue: RunningServer, name: str, first: int, second: int) -> None:
    gaps = []
    for _ in range(15):
        answers = ask(rogue, f"{name}.small.test", second + 1)
        gaps.append(answers[second].at_us - answers[first].at_us)
    assert is_kept(gaps), gaps
    for fault_us in (2000, -2000):
        assert not is_kept([gap + fault_us for gap in gaps])


def is_kept(gaps: list[float]) -> bool:
    """Return whether no answer was early, and at least half were not late."""
    return min(gaps) >= ROGUE_DELAY_US - 100 and statistics.median(gaps) <= ROGUE_DELAY_US + 1000


def test_numbers_sizes_and_codes(rogue: RunningServer) -> None:
    lost = ask(rogue, "lost-ack.now.test")[0].packets[0]
    assert lost.number == 1
    starts = [answer.packets[0].number for answer in ask(rogue, "pn-start.small.test", 2)]
    assert starts == [2**31 - 1, 2**31]
    assert ask(rogue, "small-ack.small.test")[0].size < 100
    assert ask(rogue, "closed.now.test")[0].packets[0].close == (0x128, "no service for this name")
    assert sum(answer.size for answer in ask(rogue, "amplify.now.test", 6)) > 3 * 1252 + 1200
    malformed = ask(rogue, "malformed-frames.now.test")[0].packets[0]
    assert malformed.opened
    assert malformed.parse_error
    assert not any(
        packet.opened for reply in ask(rogue, "undecryptable.now.test", 2) for packet in reply.packets
    )


def test_a_retry_is_valid_and_a_second_one_tempts(rogue: RunningServer) -> None:
    for name, after_token in [
        ("retry-silent.small.test", []),
        ("retry-twice.small.test", [["retry"]]),
        ("retry-ack-range.small.test", [["ack padding"], ["crypto", "handshake"]]),
    ]:
        with InitialClient(HOST, rogue.port, name) as client:
            client.send_hello()
            retry = client.read(PATIENCE_S, until=1)[0]
            assert retry.packets[0].opened, "the integrity tag is wrong"
            client.follow_retry(retry)
            answers = client.read(PATIENCE_S, until=len(after_token)) + client.read(0.2)
            assert contents(answers) == after_token
            if name.startswith("retry-ack-range"):
                assert answers[0].packets[0].acked == [0, 1]
            if name.startswith("retry-twice"):
                client.follow_retry(answers[0])
                assert client.read(PATIENCE_S, until=1)[0].has_ack


def test_version_negotiation_echoes_and_lists_others(rogue: RunningServer) -> None:
    with InitialClient(HOST, rogue.port, "version-negotiation.small.test") as client:
        client.send_hello()
        header = client.read(PATIENCE_S, until=1)[0].packets[0].header
        assert (header.destination_cid, header.source_cid) == (client.scid, client.dcid)
        assert header.supported_versions == [0x6B3343CF, 0xFF00001D, 0x1A2A3A4A]


def test_forgeries_fit_nothing(rogue: RunningServer) -> None:
    with InitialClient(HOST, rogue.port, "forged.small.test") as client:
        *forgeries, truth = answers_to(client, 6)
        assert len(forgeries) == 5
        assert not any(packet.opened for forgery in forgeries for packet in forgery.packets)
        assert truth.packets[0].opened
        negotiation, stranger = forgeries[2].packets[0].header, forgeries[4].packets[0].header
        assert negotiation.source_cid != client.dcid
        assert stranger.destination_cid != client.scid


def test_silence_is_not_a_closed_port(rogue: RunningServer) -> None:
    """A connected socket would report the ICMP error from a closed port."""
    with InitialClient(HOST, rogue.port, "silent.small.test") as client:
        client.socket.connect(client.address)
        client.socket.send(client.client_hello_packet())
        client.socket.settimeout(0.2)
        with pytest.raises(TimeoutError):
            client.socket.recv(1)


def test_a_copy_is_not_answered_again(rogue: RunningServer) -> None:
    with InitialClient(HOST, rogue.port, "split-packets.small.test") as client:
        packet = client.client_hello_packet()
        client.socket.sendto(packet, client.address)
        assert len(client.read(PATIENCE_S, until=1)) == 1
        client.socket.sendto(packet, client.address)
        assert client.read(0.1) == []
