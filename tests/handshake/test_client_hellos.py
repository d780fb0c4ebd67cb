"""Servers' answers to ClientHellos in two datagrams, without a name, or with other protocols."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lab.declared.model import HttpAnswer
from tests.handshake.conftest import ENDS_S, HOST, Http3, connect
from tests.handshake.relay import Rule, relays
from tests.lab_servers.running import endpoint, running

TWO_DATAGRAMS = ("--key-share", "x25519mlkem768", "--timeout", ENDS_S)


def second_lost() -> Rule:
    """Drop the client's second datagram. Until its retransmission the server has half a ClientHello."""
    return lambda from_server, number, data: [] if (from_server, number) == (False, 1) else [data]


def passed() -> Rule:
    return lambda _from_server, _number, data: [data]


@pytest.mark.parametrize(("stack", "mode"), [("quiche", "wait"), ("quiche", "iack"), ("quic-go", "wait")])
def test_an_ack_of_half_a_client_hello_is_no_instant_ack(tmp_path: Path, stack: str, mode: str) -> None:
    with (
        running(tmp_path, stack, [replace(endpoint(stack, mode, 20_000), http=HttpAnswer(200))]) as server,
        relays(server.port, {"whole": passed(), "half": second_lost()}) as ports,
    ):
        name = f"{mode}.small.test"
        complete, half = (
            connect(tmp_path, [(HOST, name, ports[path])], *TWO_DATAGRAMS).row(name)
            for path in ("whole", "half")
        )
    for row in (complete, half):
        assert (row["outcome"], row["group"], row["hello_datagrams"]) == ("done", "X25519MLKEM768", 2), row
        # Instant or not, as the server is configured to answer a whole ClientHello.
        assert row["first_answer"] == ("iack" if mode == "iack" else "coalesced"), row
    assert half["first_answer_any_ack"] == "iack" and not half["ack_covers_hello"], half
    assert half["first_ack_datagrams"] == "1" and half["partial_ack_us"] < half["ack_us"], half
    # The server waits for the rest. It sends the ServerHello no earlier than the ACK of all of it.
    assert half["sh_us"] >= half["ack_us"] and half["retransmissions"] >= 1, half


def test_both_datagrams_leave_at_once(http3: Http3, tmp_path: Path) -> None:
    sizes: list[int] = []

    def rule(from_server: bool, _number: int, data: bytes) -> list[bytes]:
        if not from_server:
            sizes.append(len(data))
        return []

    with relays(http3.port, {"silent": rule}) as ports:
        name = "plain.http3.test"
        targets = [(HOST, name, ports["silent"])]
        (row,) = connect(tmp_path, targets, "--key-share", "x25519mlkem768", "--timeout", 0.5).rows
    # Both, before a probe time-out.
    assert (sizes, row["retransmissions"], row["hello_datagrams"]) == ([1252] * 2, 0, 2)
    assert (row["outcome"], row["ack_covers_hello"], row["first_answer_any_ack"]) == ("timeout", None, None)


def test_a_name_can_be_left_out(http3: Http3, tmp_path: Path) -> None:
    targets = [(HOST, "plain.http3.test", http3.port), (HOST, "", http3.port)]
    named = connect(tmp_path, targets)
    unnamed = connect(tmp_path, targets, "--sni", "none")
    for done, sni in ((named, True), (unnamed, False)):
        row = done.row("plain.http3.test")
        assert (row["sni"], row["status"], row["name_matches"]) == (sni, 200, True)
        assert (row["hello_datagrams"], row["ack_covers_hello"], row["first_ack_datagrams"]) == (1, True, "1")
        assert row["partial_ack_us"] is None and row["first_answer_any_ack"] == row["first_answer"]
        assert done.row("")["sni"] is False
    # The request names the server all the same.
    authorities = {request[":authority"] for request in http3.asked()[-2:]}
    assert authorities == {f"{name}:{http3.port}" for name in ("plain.http3.test", HOST)}


@pytest.mark.parametrize(
    ("offered", "expected"),
    [
        ("h3", ("done", "h3", "response", None)),
        ("hq-interop,h3", ("done", "h3", "response", None)),
        ("hq-interop", ("handshake_failed", None, None, 120)),
    ],
)
def test_protocols_are_offered_as_requested(
    http3: Http3, tmp_path: Path, offered: str, expected: tuple[object, ...]
) -> None:
    (row,) = connect(tmp_path, [(HOST, "plain.http3.test", http3.port)], "--alpn", offered).rows
    assert (row["outcome"], row["alpn"], row["http"], row["alert"]) == expected
