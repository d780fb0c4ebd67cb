"""Runs the prober and its targets for tests."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from firstflight.system import binaries
from tests.free_port import free_port
from tests.waiting import PATIENCE_S, until

LOOPBACK = ("--allow-net", "127.0.0.0/8", "--allow-net", "::1/128")
FAST = ("--per-address-rate", "0", "--per-prefix-rate", "0")

Target = tuple[str, str, int | str]


@dataclass
class ProberRun:
    """The output from a run of the prober."""

    status: int
    rows: list[dict[str, Any]]
    messages: str
    summary: dict[str, Any] = field(default_factory=dict)

    def row(self, domain: str) -> dict[str, Any]:
        """Return the only row of this name."""
        (row,) = [row for row in self.rows if row["domain"] == domain]
        return row


def argv(*arguments: object) -> list[str]:
    """Return the command line of the native prober."""
    return [str(binaries.find("firstflight-prober")), *map(str, arguments)]


def write_targets(path: Path, targets: Sequence[Target]) -> Path:
    """Write a target list."""
    lines = ["ip,domain,port", *(f"{ip},{domain},{port}" for ip, domain, port in targets)]
    path.write_text("\n".join(lines) + "\n")
    return path


Probe = Callable[..., ProberRun]


@pytest.fixture
def probe(tmp_path: Path) -> Probe:
    """Return a function that runs the prober on targets (a sequence, a text or a path); allows loopback."""

    def run(
        targets: Sequence[Target] | str | Path,
        *options: object,
        allow: Sequence[str] = LOOPBACK,
        limits: Sequence[str] = FAST,
    ) -> ProberRun:
        if isinstance(targets, Path):
            path = targets
        elif isinstance(targets, str):
            path = tmp_path / "targets.csv"
            path.write_text(targets)
        else:
            path = write_targets(tmp_path / "targets.csv", targets)
        summary = tmp_path / "summary.json"
        summary.unlink(missing_ok=True)
        # A long default timeout, so that expected answers are never too late.
        patient = () if "--timeout" in options else ("--timeout", 60)
        command = argv("--targets", path, "--summary", summary, *allow, *limits, *patient, *options)
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        counts = json.loads(summary.read_text()) if summary.exists() else {}
        return ProberRun(done.returncode, rows, done.stderr, counts)

    return run


@pytest.fixture
def silent() -> Iterator[Callable[[str], socket.socket]]:
    """Opens bound UDP sockets that never answer."""
    servers: list[socket.socket] = []

    def bind(address: str) -> socket.socket:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        server = socket.socket(family, socket.SOCK_DGRAM)
        server.bind((address, 0))
        server.setblocking(False)
        servers.append(server)
        return server

    yield bind
    for server in servers:
        server.close()


def datagrams(server: socket.socket) -> list[bytes]:
    """Return the datagrams that a socket received."""
    found = []
    while True:
        try:
            found.append(server.recv(65536))
        except BlockingIOError:
            return found


def arrivals(server: socket.socket, count: int) -> list[bytes]:
    """Wait until a socket has received at least `count` datagrams, and return them."""
    found: list[bytes] = []

    def all_there() -> bool:
        found.extend(datagrams(server))
        return len(found) >= count

    until(all_there, lambda: f"{count} datagrams, {len(found)} are there")
    return found


def start(command: Sequence[str | Path], ready: str) -> subprocess.Popen[str]:
    """Start a server and wait for its line `ready`."""
    process = subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.strip() == ready, f"{command[0]} printed {line!r}"
    return process


@contextmanager
def answering() -> Iterator[int]:
    """Run bench/responder on all loopback addresses; yields its port."""
    port = free_port()
    process = start([binaries.find("firstflight-responder"), "--listen", f"0.0.0.0:{port}"], "READY")
    try:
        yield port
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="session")
def responder() -> Iterator[int]:
    """Port of bench/responder on all loopback addresses."""
    with answering() as port:
        yield port


@pytest.fixture(scope="session")
def aioquic_ports() -> Iterator[tuple[int, int]]:
    """Two ports on a real QUIC server on 127.0.0.1 and ::1. On the second port, it sends a Retry first."""
    ports = free_port(), free_port()
    process = start([sys.executable, Path(__file__).with_name("quic_server.py"), *map(str, ports)], "READY")
    yield ports
    process.kill()
    process.wait()
