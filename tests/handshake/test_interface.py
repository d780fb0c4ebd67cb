"""The engine's interface: input that it refuses before it sends, limits, lists, interruption, resumption."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from lab.declared.model import HttpAnswer
from schemas import records
from tests.engines.segments import rows_of
from tests.handshake.conftest import ENDS_S, FAST, HOST, LOOPBACK, argv, connect, write_targets
from tests.handshake.relay import relays
from tests.lab_servers.running import RunningServer, endpoint, running
from tests.processes import pending
from tests.waiting import PATIENCE_S, until

NAMES = 300


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server that answers requests, so a connection closes long before its timeout."""
    answers = replace(endpoint("quiche", "wait", None), http=HttpAnswer(200))
    with running(tmp_path_factory.mktemp("quiche"), "quiche", [answers]) as found:
        yield found


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """A bound socket that never answers."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind((HOST, 0))
        server.setblocking(False)
        yield server


def names(server: RunningServer, count: int) -> list[tuple[str, str, int]]:
    return [(HOST, f"n{number}.small.test", server.port) for number in range(count)]


def test_json_has_the_columns_of_the_kind(server: RunningServer, tmp_path: Path) -> None:
    (row,) = connect(tmp_path, names(server, 1), "--timeout", ENDS_S).rows
    described = [
        column.name for column in records.load("quic_handshake").columns if column.source == "handshake"
    ]
    assert list(row) == described


@pytest.mark.parametrize(
    ("options", "allow", "status", "message"),
    [
        (["--rate", "0"], LOOPBACK, 2, "must be above 0"),
        (["--path", "x"], LOOPBACK, 2, "must begin with /"),
        (["--verify", "all"], LOOPBACK, 2, "possible values: none, signature, chain"),
        (["--roots", "r.pem"], LOOPBACK, 2, "--roots is only for --verify chain"),
        (["--roots", "/nonexistent.pem", "--verify", "chain"], LOOPBACK, 3, "nothing was sent"),
        (["--cdn-rules", "/nonexistent.json"], LOOPBACK, 3, "nothing was sent"),
        (["--cdn-rules", "/proc/self/cmdline"], LOOPBACK, 3, "--cdn-rules /proc/self/cmdline: "),
        (["--keylog", "/nonexistent/keys"], LOOPBACK, 2, "--keylog"),
        (["--blocklist", "/nonexistent"], LOOPBACK, 3, "cannot be read"),
        (["--feed", "--settle-ms", "1"], LOOPBACK, 2, "--settle-ms"),
        (["--dry-run"], LOOPBACK, 0, "1 targets, 0 of them blocked"),
    ],
)
def test_wrong_use_sends_nothing(
    silent: socket.socket,
    tmp_path: Path,
    options: list[str],
    allow: tuple[str, ...],
    status: int,
    message: str,
) -> None:
    target = (HOST, "a.test", silent.getsockname()[1])
    done = connect(tmp_path, [target], *options, allow=allow, limits=())
    assert done.status == status and message in done.messages and len(done.messages.splitlines()) == 1
    assert not done.rows
    with pytest.raises(BlockingIOError):
        silent.recv(2048)


def test_targets_outside_need_a_contact(tmp_path: Path) -> None:
    path = write_targets(tmp_path / "t.csv", [("192.0.2.1", "a.test", 443), ("1.1.1.1", "b.test", 443)])
    done = subprocess.run(argv("--targets", path), capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 2 and "give --contact" in done.stderr and not done.stdout


def test_lists_are_kept(silent: socket.socket, server: RunningServer, tmp_path: Path) -> None:
    (tmp_path / "optout").write_text("owner.test\n")
    (tmp_path / "block").write_text("127.0.0.9\n")
    targets = [
        (HOST, "www.owner.test", silent.getsockname()[1]),
        ("127.0.0.9", "b.test", 443),
        ("10.1.1.1", "c.test", 443),
        (HOST, "wait.small.test", server.port),
    ]
    lists = ("--optout", tmp_path / "optout", "--blocklist", tmp_path / "block", "--timeout", ENDS_S)
    done = connect(tmp_path, targets, *lists)
    outcomes = {row["domain"]: row["outcome"] for row in done.rows}
    blocked = dict.fromkeys(["www.owner.test", "b.test", "c.test"], "blocked")
    assert outcomes == {**blocked, "wait.small.test": "done"}
    assert {row["stage"] for row in done.rows if row["outcome"] == "blocked"} == {None}
    with pytest.raises(BlockingIOError):
        silent.recv(2048)


def test_a_server_that_never_answers_gets_few_datagrams(silent: socket.socket, tmp_path: Path) -> None:
    """At most three datagrams in each try, and three in at least one: a slow machine may send fewer."""
    for _ in range(3):
        (row,) = connect(tmp_path, [(HOST, "a.test", silent.getsockname()[1])], "--timeout", 6.9).rows
        # After 1 s and 3 s; the next one would be after 7 s.
        sent = row["datagrams_sent"]
        assert (row["outcome"], row["retransmissions"]) == ("timeout", sent - 1) and sent <= 3, row
        assert [len(silent.recv(2048)) for _ in range(sent)] == [1252] * sent
        with pytest.raises(BlockingIOError):
            silent.recv(2048)
        if sent == 3:
            return
    raise AssertionError("fewer than three datagrams in each try")


def test_limits_hold(server: RunningServer, tmp_path: Path) -> None:
    started_ns = time.time_ns()
    limits = ("--per-address-rate", "5", "--per-prefix-rate", "0")
    done = connect(tmp_path, names(server, 8), "--timeout", ENDS_S, limits=limits)
    times = sorted(row["sent_at"] for row in done.rows)
    # Each leaves at its time or later: the k-th not before k intervals have passed.
    assert all(sent - started_ns >= k * 200_000_000 for k, sent in enumerate(times))
    assert {row["outcome"] for row in done.rows} == {"done"}


def test_interrupted_killed_and_resumed_every_target_has_one_row(
    server: RunningServer, tmp_path: Path
) -> None:
    path = write_targets(tmp_path / "t.csv", names(server, NAMES))
    folder, summary = tmp_path / "segments", tmp_path / "summary.json"
    options = ("--targets", path, "--segments", folder, "--summary", summary, "--timeout", ENDS_S)
    command = argv(*options, *LOOPBACK, *FAST[:4])
    first = subprocess.Popen([*command, "--rate", "20"], stderr=subprocess.DEVNULL)
    until(lambda: folder.is_dir() and len(rows_of(folder)) > 5, "some rows")
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    killed = len(rows_of(folder))
    second = subprocess.Popen([*command, "--resume", "--rate", "20"], stderr=subprocess.DEVNULL)
    until(lambda: len(rows_of(folder)) > killed + 5, "more rows")
    second.send_signal(signal.SIGINT)
    assert second.wait(120) == 130
    counts = json.loads(summary.read_text())
    assert counts["interrupted"] and counts["not_done"] > 0 and counts["resumed"] == killed
    third = subprocess.run(
        [*command, "--resume", "--rate", "100"], stderr=subprocess.PIPE, text=True, timeout=PATIENCE_S
    )
    assert third.returncode == 0, third.stderr
    rows = rows_of(folder)
    assert sorted(row["domain"] for row in rows) == sorted(name for _, name, _ in names(server, NAMES))
    assert {row["outcome"] for row in rows} == {"done"}
    assert json.loads(summary.read_text())["outcomes"]["done"] == NAMES


def test_connections_cut_off_by_a_second_signal_are_closed_without_rows(
    server: RunningServer, tmp_path: Path
) -> None:
    """The relay passes on only the first of the server's datagrams."""
    connection_ids: list[bytes] = []

    def first_alone(from_server: bool, number: int, datagram: bytes) -> list[bytes]:
        if from_server:
            return [datagram][number:]
        connection_ids.append(datagram[6 : 6 + datagram[5]])
        return [datagram]

    folder, summary = tmp_path / "segments", tmp_path / "summary.json"
    with relays(server.port, {"first": first_alone}) as ports:
        path = write_targets(tmp_path / "t.csv", [(HOST, "wait.small.test", ports["first"])])
        options = ("--targets", path, "--segments", folder, "--summary", summary, "--timeout", 60)
        process = subprocess.Popen(argv(*options, *LOOPBACK), stderr=subprocess.DEVNULL)
        until(lambda: connection_ids[-1:] != connection_ids[:1], "something to the server's connection ID")
        process.send_signal(signal.SIGINT)
        # The kernel would merge a second signal with a pending first one.
        until(lambda: pending(process.pid) == 0, "the first signal is handled")
        before = len(connection_ids)
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 130
        until(lambda: len(connection_ids) > before, "the close")
    assert (json.loads(summary.read_text())["not_done"], rows_of(folder)) == (1, [])


def test_keys_are_logged_for_dissectors(server: RunningServer, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    (row,) = connect(tmp_path, names(server, 1), "--timeout", ENDS_S, "--keylog", keys).rows
    labels = [line.split()[0] for line in keys.read_text().splitlines()]
    assert row["outcome"] == "done"
    assert {"CLIENT_HANDSHAKE_TRAFFIC_SECRET", "SERVER_HANDSHAKE_TRAFFIC_SECRET"} <= set(labels)
    assert {"CLIENT_TRAFFIC_SECRET_0", "SERVER_TRAFFIC_SECRET_0"} <= set(labels)
