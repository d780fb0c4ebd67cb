"""Servers that attack: every target has one row with an outcome that fits, and gets few datagrams."""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.certificates import issue, make_authority

from . import hostile
from .conftest import HOST, TREE, connect

NAMES = 200
FLOOD = 1000

# What a server in Python keeps up with.
SLOW = ("--per-address-rate", "0", "--per-prefix-rate", "0", "--rate", "60")

Answer = Callable[[bytes], Iterable[bytes]]


@contextmanager
def answering(answer: Answer) -> Iterator[int]:
    """Answer the first datagram to each connection ID by what `answer` makes of it; give the port."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.bind((HOST, 0))
        seen = set()

        def work() -> None:
            while (datagram := one.recvfrom(65536))[0] != b"end":
                first, peer = datagram
                source = hostile.source_of(first)
                if source not in seen:
                    seen.add(source)
                    for packet in answer(first):
                        one.sendto(packet, peer)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        yield int(one.getsockname()[1])
        one.sendto(b"end", one.getsockname())
        thread.join()


def named(port: int, count: int) -> list[tuple[str, str, int]]:
    return [(HOST, f"n{number}.hostile.test", port) for number in range(count)]


def test_random_frames_in_initial_packets(tmp_path: Path) -> None:
    draw = random.Random(1)
    with answering(lambda first: hostile.initials(draw, first)) as port:
        done = connect(tmp_path, named(port, NAMES), "--timeout", 1)
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
    def flood(first: bytes) -> Iterator[bytes]:
        keys = hostile.server_keys(first)
        for number in range(FLOOD):
            pause.wait(0.002)
            yield hostile.initial(keys, first, number, b"\x01\0\0\0")

    pause = threading.Event()
    with answering(flood) as port:
        (row,) = connect(tmp_path, named(port, 1), "--timeout", 3).rows
        pause.set()
    assert (row["outcome"], row["stage"]) == ("timeout", "sent")
    assert row["datagrams_received"] > 300 and row["datagrams_sent"] <= 205


def test_random_frames_behind_a_handshake(tmp_path: Path) -> None:
    files = issue(make_authority(tmp_path), "hostile", ["*.hostile.test"])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind((HOST, 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-P", "-m", "tests.handshake.hostile", str(port), files.chain, files.key]
    environment = {**os.environ, "PYTHONPATH": str(TREE)}
    process = subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert process.stdout is not None and process.stdout.readline() == "READY\n"
        done = connect(tmp_path, named(port, 100), "--timeout", 2, limits=SLOW)
    finally:
        process.kill()
        process.wait()
    assert done.status == 0 and len(done.rows) == 100, done.messages
    complete = [row for row in done.rows if row["handshake_us"] is not None]
    # A slow machine's server may let some time out.
    assert len(complete) > 50
    assert {row["outcome"] for row in complete} >= {"done", "malformed"}
    assert {row["outcome"] for row in done.rows} <= {"done", "malformed", "timeout", "handshake_failed"}
    assert None not in {row["http"] for row in complete}
    assert max(row["datagrams_sent"] for row in done.rows) < 40
