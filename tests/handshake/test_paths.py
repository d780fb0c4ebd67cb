"""Paths that lose, double, reorder or falsify datagrams: a handshake is complete all the same."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from tests.handshake.conftest import ENDS_S, HOST, EngineOutput, Http3, connect
from tests.handshake.relay import Rule, relays
from tests.lab_servers.running import endpoint, running

# More than a connection without losses has in either direction.
MOST = 12
# So that a server and relays in Python keep up.
SLOW = ("--per-address-rate", "0", "--per-prefix-rate", "0", "--rate", "20")
# Of handshakes that lose a datagram, with a server that then keeps silent.
WAITING_S = 15
ONE_BY_ONE = ("--per-address-rate", "0", "--per-prefix-rate", "0", "--rate", "2")
MODES = ("wait", "iack", "retry", "hello-retry")


def lost(from_server: bool, number: int) -> Rule:
    """Drop one datagram in a direction."""
    return lambda towards, count, data: [] if (towards, count) == (from_server, number) else [data]


def every(nth: int) -> Rule:
    """Drop each nth datagram of either direction."""
    return lambda _towards, count, data: [] if count % nth == nth - 1 else [data]


def doubled(_from_server: bool, _number: int, data: bytes) -> Iterable[bytes]:
    return [data, data]


def swapped() -> Rule:
    """Pass on the datagrams of the server's first six in pairs, the later one first."""
    delayed: list[bytes] = []

    def rule(from_server: bool, number: int, data: bytes) -> Iterable[bytes]:
        if not from_server or number >= 6:
            return [data]
        if number % 2 == 0:
            delayed.append(data)
            return []
        return [data, delayed.pop()]

    return rule


def replayed() -> Rule:
    """Repeat the server's earlier datagrams (at most 29) before each new one."""
    seen: list[bytes] = []

    def rule(from_server: bool, _number: int, data: bytes) -> Iterable[bytes]:
        if not from_server:
            return [data]
        seen.append(data)
        return seen[-30:]

    return rule


def flipped(seed: int) -> Rule:
    """Send copies with a wrong bit before each datagram of the server."""
    draw = random.Random(seed)

    def copy(data: bytes) -> bytes:
        place = draw.randrange(8 * len(data))
        changed = bytearray(data)
        changed[place // 8] ^= 1 << place % 8
        return bytes(changed)

    return lambda towards, _count, data: [*(copy(data) for _ in range(20)), data] if towards else [data]


def noisy(seed: int) -> Rule:
    """Send noise to the client's connection ID before each datagram of the server."""
    draw = random.Random(seed)

    def noise(data: bytes) -> bytes:
        # Half of the copies of a long header keep its first byte, version and connection ID.
        header = data[:14] if data[0] & 0x80 and draw.random() < 0.5 else bytes([0x40]) + data[6:14]
        return header + draw.randbytes(draw.randrange(1, 1300))

    return lambda towards, _count, data: [*(noise(data) for _ in range(20)), data] if towards else [data]


RULES: dict[str, Rule] = {
    "clean": lambda _towards, _count, data: [data],
    **{f"lost-server-{number}": lost(True, number) for number in range(MOST)},
    **{f"lost-client-{number}": lost(False, number) for number in range(MOST)},
    **{f"every-{nth}": every(nth) for nth in (3, 4, 5)},
    "doubled": doubled,
    "swapped": swapped(),
    "replayed": replayed(),
    **{f"flipped-{seed}": flipped(seed) for seed in range(8)},
    **{f"noisy-{seed}": noisy(seed) for seed in range(8)},
}


@pytest.fixture(scope="module")
def done(http3: Http3, tmp_path_factory: pytest.TempPathFactory) -> EngineOutput:
    with relays(http3.port, RULES) as ports:
        targets = [(HOST, f"{name}.http3.test", port) for name, port in ports.items()]
        return connect(tmp_path_factory.mktemp("paths"), targets, "--timeout", ENDS_S, limits=SLOW)


@pytest.mark.parametrize("name", RULES)
def test_the_response_comes_over_every_path(done: EngineOutput, name: str) -> None:
    row = done.row(f"{name}.http3.test")
    assert (row["outcome"], row["http"], row["status"]) == ("done", "response", 200), row
    assert row["alert"] is None and row["signature_valid"], row


@pytest.fixture(scope="module")
def undisturbed(http3: Http3, tmp_path_factory: pytest.TempPathFactory) -> EngineOutput:
    """Connections over clean paths, one after the other, so a delay of the server disturbs only one."""
    names = [f"clean-{number}" for number in range(5)]
    with relays(http3.port, dict.fromkeys(names, RULES["clean"])) as ports:
        targets = [(HOST, f"{name}.http3.test", port) for name, port in ports.items()]
        folder = tmp_path_factory.mktemp("undisturbed")
        return connect(folder, targets, "--timeout", ENDS_S, limits=ONE_BY_ONE)


def test_every_datagram_of_a_connection_is_lost_once(done: EngineOutput, undisturbed: EngineOutput) -> None:
    clean = min(undisturbed.rows, key=lambda row: int(row["retransmissions"]))
    # An engine that sends something again on a path without losses does so on each.
    assert clean["retransmissions"] == 0, undisturbed.rows
    # The close is the client's last datagram.
    assert 2 <= clean["datagrams_received"] <= MOST and 3 <= clean["datagrams_sent"] <= MOST
    assert done.row("lost-client-0.http3.test")["retransmissions"] > 0


def test_no_run_fails_and_nothing_is_sent_without_end(done: EngineOutput) -> None:
    assert (done.status, done.messages.count("panicked")) == (0, 0), done.messages
    assert len(done.rows) == len(RULES)
    assert {row["domain"]: row["datagrams_sent"] for row in done.rows if row["datagrams_sent"] > 60} == {}


@pytest.fixture(scope="module")
def shaken(tmp_path_factory: pytest.TempPathFactory) -> EngineOutput:
    """Handshakes with a server that speaks no HTTP/3, its chain of many datagrams, and one lost datagram."""
    folder = tmp_path_factory.mktemp("quiche")
    untimed = ("retry", "hello-retry")
    endpoints = [
        endpoint("quiche", mode.replace("-", "_"), None if mode in untimed else 1000, certificate="large")
        for mode in MODES
    ]
    rules = {
        f"{mode}.large.test": {
            f"{side}-{number}": lost(side == "server", number)
            for side in ("server", "client")
            for number in range(MOST)
        }
        for mode in MODES
    }
    with running(folder, "quiche", endpoints) as server:
        flat = {f"{domain} {name}": rule for domain, some in rules.items() for name, rule in some.items()}
        with relays(server.port, flat) as ports:
            # The port in a line identifies the lost datagram.
            targets = [(HOST, name.split()[0], port) for name, port in ports.items()]
            found = connect(folder, targets, "--timeout", WAITING_S)
        names = {port: name for name, port in ports.items()}
        return EngineOutput(
            found.status,
            [{**row, "domain": names[row["port"]]} for row in found.rows],
            found.messages,
            folder,
        )


@pytest.mark.parametrize("mode", MODES)
def test_one_lost_datagram_fails_no_handshake(shaken: EngineOutput, mode: str) -> None:
    rows = [row for row in shaken.rows if row["domain"].startswith(f"{mode}.")]
    assert len(rows) == 2 * MOST
    failed = {
        row["domain"]: (row["outcome"], row["stage"], row["detail"])
        for row in rows
        if row["outcome"] != "done"
    }
    assert failed == {}
    assert {row["stage"] for row in rows} == {"confirmed"}
