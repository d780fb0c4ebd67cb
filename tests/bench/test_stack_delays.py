"""Calculations of `python -m bench stack_delays`, and handshakes with a server."""

from __future__ import annotations

from typing import Any

import pytest

from bench.testbeds import stack_delays
from bench.testbeds.stack_delays import StackDelay, Times
from reports.numbers.spread import Spread
from testbed import stacks


def row(answering: str, ack_us: int, sh_us: int, first_answer: str | None = None) -> dict[str, Any]:
    made = first_answer or ("iack" if sh_us > ack_us else "coalesced")
    times = {"ack_us": ack_us, "sh_us": sh_us, "ack_to_sh_us": sh_us - ack_us}
    return {"answering": answering, "first_answer": made, **times}


BLOCKS = [
    [row("iack", 100, 400), row("iack", 120, 430), row("wfc", 900, 900)],
    [row("iack", 140, 490), row("iack", 300, 300), row("wfc", 1100, 1100)],
]


def test_a_delay_has_only_handshakes_with_two_datagrams() -> None:
    """300, 310 and 350 us; a coalesced answer of a server with instant ACKs is no delay of 0."""
    found = stack_delays.delay("quic-go", "ecdsa_p256", "1.2", BLOCKS)
    assert found.ack_to_sh == Times(3, Spread(300, 305, 310, 330, 350), 45)
    assert found.hello_to_sh == Times(2, Spread(900, 950, 1000, 1050, 1100), 200)
    assert (found.ack_later_ms, found.no_ack_to_sh) == (0.88, None)
    assert (found.published_low_ms, found.published_high_ms) == (2.9, 7.8)
    assert str(found) == (
        "quic-go, ecdsa_p256: ACK to ServerHello 310 us (quartiles 305 to 330; 3 handshakes, noise 45); "
        "Initial to ServerHello 1000 us (quartiles 950 to 1050; 2 handshakes, noise 200); "
        "without an instant ACK, the first ACK is 0.88 ms later (published: 2.9 to 7.8)"
    )


def test_a_server_with_one_datagram_has_no_delay() -> None:
    found = stack_delays.delay("ngtcp2-gnutls", "rsa_2048", "1.2", [[BLOCKS[0][2]], [BLOCKS[1][2]]])
    assert (found.ack_to_sh, found.ack_later_ms, found.no_ack_to_sh) == (None, None, "coalesced")
    assert found.published_low_ms is None
    assert "ACK to ServerHello not measured (coalesced); Initial to ServerHello 1000 us" in str(found)


def test_a_block_without_handshakes_gives_no_noise() -> None:
    found = stack_delays.delay("quinn", "ecdsa_p256", None, [BLOCKS[0], [row("iack", 5, 4, "sh_first")]])
    assert found.ack_to_sh is not None and found.ack_to_sh.noise_us is None
    assert "noise unknown" in str(found.ack_to_sh)


def test_a_server_answers_in_both_ways() -> None:
    blocks = stack_delays.measure("aioquic", "ecdsa_p256", 2)
    assert [sorted(row["answering"] for row in rows) for rows in blocks] == [["iack"] * 2 + ["wfc"] * 2] * 2
    for found in (found for rows in blocks for found in rows if found["answering"] == "wfc"):
        assert (found["first_answer"], found["ack_to_sh_us"]) == ("coalesced", 0)
    assert stack_delays.delay("quinn", "ecdsa_p256", None, blocks).hello_to_sh is not None


def test_servers_that_are_not_built_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert {"aioquic", "ngtcp2-gnutls", "picoquic", "quic-go", "quiche", "quinn"} <= {*stack_delays.servers()}
    assert not {"tcp-nginx", "tquic"} & {*stack_delays.servers()}
    program = stacks.find("quinn").server
    assert not isinstance(program, str | None)
    lost = program.model_copy(update={"program": "firstflight-nothing"})
    here = stacks.find("quinn").model_copy(update={"server": lost})
    monkeypatch.setattr(stacks, "find", lambda _: here)
    found = stack_delays.measured("quinn", "rsa_2048", 1)
    assert found == StackDelay("quinn", "rsa_2048", no_ack_to_sh="not built")
    assert str(found) == "quinn, rsa_2048: not built"


def test_arguments_that_measure_nothing_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--handshakes", "0"], ["--servers", "tcp-nginx"], ["--keys", "ed25519"]):
        with pytest.raises(SystemExit):
            stack_delays.main(arguments)
        assert "error: " in capsys.readouterr().err
