"""Handshakes with every stack of the lab, and with servers that misbehave: outcomes and milestones."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from lab import stacks
from lab.declared.model import HttpAnswer
from lab.hosts.servers import CHAIN_BYTES
from tests.dissect.conftest import FIXTURES as INTEROP
from tests.dissect.conftest import rows
from tests.handshake.conftest import ENDS_S, HOST, EngineOutput, connect
from tests.lab_servers.running import endpoint, running

DELAY_US = 20_000
GOOD = {
    "quiche": ("iack", "wait", "retry", "retry_iack", "hello_retry", "sh_then_certificate"),
    "quic-go": ("wait",),
    "aioquic": ("iack", "wait"),
}
# Long enough for all datagrams from such a server, short enough for the counts of datagrams below.
WAITING_S = 5
# Servers drop a connection after five seconds of silence. Far more, so that a late answer changes nothing.
IDLE_S = 20
UNTIMED = ("retry", "hello_retry")
MILESTONES = ("ack_us", "sh_us", "certificate_us", "handshake_us", "confirmed_us")


def started(
    folder: Path, stack: str, modes: Sequence[str], timeout_s: float, sizes: Sequence[str] = ("small",)
) -> EngineOutput:
    """Connect to each mode of a stack. The server answers requests, so connections close soon."""
    endpoints = [
        replace(
            endpoint(stack, mode, None if mode in UNTIMED else DELAY_US, certificate=size),
            http=HttpAnswer(200),
        )
        for mode in modes
        for size in sizes
    ]
    with running(folder, stack, endpoints) as server:
        targets = [(HOST, served.domain, server.port) for served in endpoints]
        return connect(folder, targets, "--timeout", timeout_s)


@pytest.fixture(scope="module", params=GOOD)
def done(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, EngineOutput]]:
    stack = str(request.param)
    yield stack, started(tmp_path_factory.mktemp(stack), stack, GOOD[stack], ENDS_S, ("small", "large"))


def test_every_handshake_is_complete(done: tuple[str, EngineOutput]) -> None:
    stack, found = done
    assert found.status == 0 and len(found.rows) == 2 * len(GOOD[stack])
    for row in found.rows:
        mode, size = row["domain"].split(".")[0].replace("-", "_"), row["domain"].split(".")[1]
        assert (row["outcome"], row["alpn"], row["signature_valid"]) == ("done", "h3", True), row
        times = [row[name] for name in MILESTONES]
        assert None not in times and times == sorted(times), row
        assert row["retry"] == mode.startswith("retry"), row
        assert row["hello_retry"] == (mode == "hello_retry"), row
        assert row["group"] == ("secp384r1" if mode == "hello_retry" else "X25519"), row
        iack = mode in ("iack", "retry_iack", "hello_retry")
        assert row["first_answer"] == ("iack" if iack else "coalesced"), row
        # The message adds framing to each certificate of the chain.
        assert CHAIN_BYTES[size] - 10 <= row["certificate_bytes"] <= CHAIN_BYTES[size] + 80, row
        assert row["discarded"] == 0 and row["detail"] is None, row
        assert (row["http"], row["status"]) == ("response", 200), row
        assert row["settings_us"] >= row["handshake_us"], row


@pytest.mark.parametrize("stack", GOOD)
def test_a_server_without_an_answer_falls_idle(tmp_path: Path, stack: str) -> None:
    with running(tmp_path, stack, [endpoint(stack, "wait", None)]) as server:
        (row,) = connect(tmp_path, [(HOST, "wait.small.test", server.port)], "--timeout", IDLE_S).rows
    assert (row["outcome"], row["stage"], row["http"]) == ("done", "confirmed", "idle"), row


FINGERPRINTS = {
    "quiche": {"00,01,03=65527,04,06,07,08,09,0a=3,0b=25,0f"},
    "quic-go": {"g,05,06,07,04,08,09,01,03=1452,0b=26,02,00,0e=4,0f"},
    "aioquic": {"00,01,02,04,05,06,07,08,09,0a=3,0b=25,0e=8,0f,11"},
}


def test_each_stack_is_known_by_its_transport_parameters(done: tuple[str, EngineOutput]) -> None:
    """Whatever the mode: a Retry, which adds a parameter, does not enter."""
    stack, found = done
    assert {row["stack_fingerprint"] for row in found.rows} == FINGERPRINTS[stack]
    assert {row["stack"] for row in found.rows} == {stack}


def test_captured_parameters_are_those_of_the_captures() -> None:
    """The cases of the table's own test, which has no dissector."""
    captured = json.loads((Path(__file__).parent / "stacks.json").read_text())
    captures = sorted(INTEROP.glob("*.pcap"))
    assert [path.stem for path in captures] == sorted(captured)
    for path in captures:
        (row,) = rows(path, "--kind", "quic_connection")
        assert json.loads(row["transport_parameters_server"]) == captured[path.stem], path


def test_nothing_arrives_before_its_declared_delay(done: tuple[str, EngineOutput]) -> None:
    stack, found = done
    for row in found.rows:
        mode = row["domain"].split(".")[0]
        if mode.replace("-", "_") not in UNTIMED:
            delayed_column = "certificate_us" if mode == "sh-then-certificate" else "sh_us"
            # How late it is, is the machine's.
            assert row[delayed_column] >= DELAY_US, (stack, row)


@pytest.fixture(scope="module")
def rogue(tmp_path_factory: pytest.TempPathFactory) -> EngineOutput:
    """Return the rows of all modes. Modes that close a connection have a long timeout, others a short one."""
    ending = {mode for mode, outcome, *_ in MISBEHAVIOUR if outcome != "timeout"}
    waiting = {mode.replace("_", "-") for mode in stacks.find("rogue").modes} - ending
    folder = tmp_path_factory.mktemp

    def run(modes: set[str], timeout_s: float) -> EngineOutput:
        names = sorted(mode.replace("-", "_") for mode in modes)
        return started(folder("rogue"), "rogue", names, timeout_s)

    first, second = run(ending, ENDS_S), run(waiting, WAITING_S)
    return replace(first, rows=first.rows + second.rows)


MISBEHAVIOUR: list[tuple[str, str, str, dict[str, object]]] = [
    ("silent", "timeout", "sent", {"bytes_received": 0}),
    ("ack-only", "timeout", "ack", {"first_answer": "ack_only"}),
    ("retry-silent", "timeout", "sent", {"retry": True}),
    ("retry-twice", "retry_loop", "sent", {"retry": True}),
    ("version-negotiation", "version_negotiation", "sent", {}),
    ("closed", "handshake_failed", "sent", {"alert": 40, "alert_by": "server", "close_code": 0x128}),
    ("closed-with-ack", "handshake_failed", "ack", {"alert": 40, "alert_by": "server"}),
    ("malformed-frames", "malformed", "sent", {}),
    ("undecryptable", "timeout", "sent", {}),
    ("sh-first", "timeout", "server_hello", {"first_answer": "sh_first"}),
    ("closed-hostile", "closed", "sent", {"close_code": 2, "alert": None}),
    ("retry-long-token", "timeout", "sent", {"retry": False}),
    ("version-negotiation-own", "timeout", "sent", {"version_list": None}),
    ("endless-crypto", "handshake_failed", "server_hello", {"alert_by": "client"}),
    ("slow-crypto", "timeout", "ack", {"first_answer": "ack_only"}),
    ("chatty", "timeout", "server_hello", {"first_answer": "iack"}),
]


@pytest.mark.parametrize(("mode", "outcome", "stage", "more"), MISBEHAVIOUR)
def test_servers_that_misbehave(
    rogue: EngineOutput, mode: str, outcome: str, stage: str, more: dict[str, object]
) -> None:
    row = rogue.row(f"{mode}.small.test")
    assert (row["outcome"], row["stage"]) == (outcome, stage), row
    assert {name: row[name] for name in more} == more
    assert row["handshake_us"] is None and row["http"] is None and row["cipher"] is None


@pytest.mark.parametrize("mode", sorted(stacks.find("rogue").incomplete))
def test_the_manifest_says_how_handshakes_end(rogue: EngineOutput, mode: str) -> None:
    # The first answer depends on the delay, which is another one here.
    declared = stacks.find("rogue").incomplete[mode].model_dump(exclude={"first_answer"})
    row = rogue.row(f"{mode.replace('_', '-')}.small.test")
    assert {name: row[name] for name in declared} == declared


def test_no_server_is_sent_much(rogue: EngineOutput) -> None:
    # Within WAITING_S: the ClientHello, probe time-outs that double, ACKs, a close.
    # Two modes send many datagrams, and each may get an ACK.
    most = {"endless-crypto.small.test": 202, "slow-crypto.small.test": 40}
    sent = {row["domain"]: row["datagrams_sent"] for row in rogue.rows}
    assert {name: count for name, count in sent.items() if count > most.get(name, 20)} == {}


def test_two_datagrams_of_client_hello(tmp_path: Path) -> None:
    with running(
        tmp_path, "quiche", [replace(endpoint("quiche", "wait", None), http=HttpAnswer(200))]
    ) as server:
        target = (HOST, "wait.small.test", server.port)
        done = connect(tmp_path, [target], "--key-share", "x25519mlkem768", "--timeout", ENDS_S)
    (row,) = done.rows
    assert row["outcome"] == "done" and row["bytes_sent_unvalidated"] >= 2400
