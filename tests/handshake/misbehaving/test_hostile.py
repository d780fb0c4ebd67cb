"""Servers that attack: every target has one row with an outcome that fits, and gets few datagrams."""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lab.hosts.certificates import issue, make_authority
from tests.free_port import free_port
from tests.handshake.conftest import HOST, SILENT_S, TREE, connect
from tests.handshake.misbehaving import hostile

NAMES = 200
# An engine stops acknowledging after it has sent this number of datagrams (connection/receive.rs).
ACKNOWLEDGING = 200
MOST_PINGS = 10_000
MORE = 200

# A rate that a server in Python can handle.
SLOW = ("--per-address-rate", "0", "--per-prefix-rate", "0", "--rate", "60")

AnswerFunction = Callable[[bytes], Iterable[bytes]]


@contextmanager
def answering(answer: AnswerFunction) -> Iterator[int]:
    """Answer the first datagram of each connection ID with the packets from `answer`; yield the port."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind((HOST, 0))
        seen = set()

        def work() -> None:
            while (datagram := server.recvfrom(65536))[0] != b"end":
                first, peer = datagram
                source = hostile.source_of(first)
                if source not in seen:
                    seen.add(source)
                    for packet in answer(first):
                        server.sendto(packet, peer)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        yield int(server.getsockname()[1])
        server.sendto(b"end", server.getsockname())
        thread.join()


def named(port: int, count: int) -> list[tuple[str, str, int]]:
    return [(HOST, f"n{number}.hostile.test", port) for number in range(count)]


def test_random_frames_in_initial_packets(tmp_path: Path) -> None:
    draw = random.Random(1)
    with answering(lambda first: hostile.initials(draw, first)) as port:
        done = connect(tmp_path, named(port, NAMES), "--timeout", SILENT_S)
    assert done.status == 0 and len(done.rows) == NAMES, done.messages
    outcomes = {row["outcome"] for row in done.rows}
    assert outcomes >= {"malformed", "closed"}
    assert outcomes <= {"malformed", "closed", "timeout", "handshake_failed"}
    assert max(row["datagrams_sent"] for row in done.rows) < 10
    assert all(row["handshake_us"] is None and row["http"] is None for row in done.rows)


def test_noise_is_nothing(tmp_path: Path) -> None:
    draw = random.Random(2)

    def noise(first: bytes) -> list[bytes]:
        source = hostile.source_of(first)
        return [
            bytes([draw.randrange(256)]) + start + draw.randbytes(draw.randrange(1200))
            for start in (b"\0\0\0\1\x08" + source, source, b"", b"\0\0\0\1\xff", b"\xff\0\0\0\x08" + source)
            for _ in range(20)
        ]

    with answering(noise) as port:
        done = connect(tmp_path, named(port, NAMES), "--timeout", 1)
    assert done.status == 0 and len(done.rows) == NAMES, done.messages
    assert {(row["outcome"], row["stage"]) for row in done.rows} == {("timeout", "sent")}
    assert max(row["datagrams_sent"] for row in done.rows) <= 2


def test_a_datagram_reflected_is_nothing(tmp_path: Path) -> None:
    with answering(lambda first: [first] * 5) as port:
        (row,) = connect(tmp_path, named(port, 1), "--timeout", 1).rows
    assert (row["outcome"], row["stage"]) == ("timeout", "sent")


def test_a_flood_of_pings_is_not_acknowledged_without_end(tmp_path: Path) -> None:
    """A faulty engine would continue to send a datagram for every PING, or for every few PINGs."""
    flood = Flood()
    with flood.port() as port:
        (row,) = connect(tmp_path, named(port, 1), "--timeout", 60).rows
    assert (row["outcome"], row["stage"]) == ("closed", "sent"), row
    assert flood.came[0] == ACKNOWLEDGING, flood.sent
    # Of the ClientHello, which nothing acknowledges: each after twice the time.
    retransmissions = row["retransmissions"]
    assert retransmissions < 10
    # Each acknowledgement needs a PING. The following PINGs all arrive unless the buffer is full.
    assert row["datagrams_received"] >= ACKNOWLEDGING - 1 - retransmissions + MORE
    assert flood.came[1] <= retransmissions and row["datagrams_sent"] <= ACKNOWLEDGING + retransmissions, (
        flood.came,
        row,
    )


class Flood:
    """Sends PINGs until an engine has sent ACKNOWLEDGING datagrams, then MORE further PINGs and a close.

    `sent` counts the PINGs and `came` the engine's datagrams, each before and after that moment.
    """

    def __init__(self) -> None:
        self.sent = [0, 0]
        self.came = [0, 0]

    @contextmanager
    def port(self) -> Iterator[int]:
        """Yield the port, and flood the first sender."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
            server.bind((HOST, 0))
            server.settimeout(120)
            thread = threading.Thread(target=self._flood, args=(server,), daemon=True)
            thread.start()
            yield int(server.getsockname()[1])
            thread.join()

    def _flood(self, server: socket.socket) -> None:
        first, peer = server.recvfrom(65536)
        self.came[0] += 1
        keys = hostile.server_keys(first)
        server.settimeout(0.01)  # an engine that acknowledges needs less
        while (self.came[0] < ACKNOWLEDGING and self.sent[0] < MOST_PINGS) or self.sent[1] < MORE:
            stopped = int(self.came[0] >= ACKNOWLEDGING or self.sent[0] == MOST_PINGS)
            server.sendto(hostile.initial(keys, first, sum(self.sent), b"\x01\0\0\0"), peer)
            self.sent[stopped] += 1
            with suppress(TimeoutError):
                server.recv(65536)
                self.came[stopped] += 1
        close = b"\x1c\0\0\0\0"  # CONNECTION_CLOSE, NO_ERROR, no reason
        server.sendto(hostile.initial(keys, first, sum(self.sent), close), peer)


def test_random_frames_after_a_handshake(tmp_path: Path) -> None:
    files = issue(make_authority(tmp_path), "hostile", ["*.hostile.test"])
    port = free_port()
    command = [
        sys.executable,
        "-P",
        "-m",
        "tests.handshake.misbehaving.hostile",
        str(port),
        files.chain,
        files.key,
    ]
    environment = {**os.environ, "PYTHONPATH": str(TREE)}
    process = subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert process.stdout is not None and process.stdout.readline() == "READY\n"
        done = connect(tmp_path, named(port, 100), "--timeout", 30, limits=SLOW)
    finally:
        process.kill()
        process.wait()
    served = process.stdout.read().split()
    assert done.status == 0 and len(done.rows) == 100, done.messages
    complete = [row for row in done.rows if row["handshake_us"] is not None]
    # However many a slow machine's server completes, the rows have these: no random frame undoes a handshake.
    assert sorted(row["client_cid"] for row in complete) == sorted(served)
    assert {row["outcome"] for row in complete} >= {"done", "malformed"}
    assert {row["outcome"] for row in done.rows} <= {"done", "malformed", "timeout", "handshake_failed"}
    assert None not in {row["http"] for row in complete}
    assert max(row["datagrams_sent"] for row in done.rows) < 40
