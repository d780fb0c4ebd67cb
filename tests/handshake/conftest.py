"""Runs the handshake engine for tests, and servers that speak HTTP/3."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from firstflight.system import binaries
from lab.hosts.certificates import issue, make_authority
from tests.waiting import PATIENCE_S

HOST = "127.0.0.1"
LOOPBACK = ("--allow-net", "127.0.0.0/8")
FAST = ("--per-address-rate", "0", "--per-prefix-rate", "0", "--rate", "500")
CONTACT = "research@example.org"
# Timeouts in seconds: of connections that finish by themselves, with a response or a failure, and of
# connections to a silent server, which time out.
ENDS_S = 30
SILENT_S = 8
TREE = Path(__file__).resolve().parents[2]

Target = tuple[str, str, int]


@dataclass
class EngineOutput:
    """The output from a run of the engine."""

    status: int
    rows: list[dict[str, Any]]
    messages: str
    folder: Path

    def row(self, domain: str) -> dict[str, Any]:
        """Return the only row of this name."""
        (row,) = [row for row in self.rows if row["domain"] == domain]
        return row


def argv(*arguments: object) -> list[str]:
    """Return the command line of the native engine."""
    return [str(binaries.find("firstflight-handshake")), *map(str, arguments)]


def write_targets(path: Path, targets: Sequence[Target]) -> Path:
    """Write a target list."""
    lines = ["ip,domain,port", *(f"{ip},{domain},{port}" for ip, domain, port in targets)]
    path.write_text("\n".join(lines) + "\n")
    return path


def connect(
    folder: Path,
    targets: Sequence[Target],
    *options: object,
    allow: Sequence[str] = LOOPBACK,
    limits: Sequence[str] = FAST,
) -> EngineOutput:
    """Run the engine over targets; loopback is allowed, and a contact is given."""
    path = write_targets(folder / "targets.csv", targets)
    command = argv("--targets", path, "--contact", CONTACT, *allow, *limits, *options)
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    # Split at line feeds only: a server's text may have other line terminators, which JSON does not escape.
    rows = [json.loads(line) for line in done.stdout.split("\n") if line]
    return EngineOutput(done.returncode, rows, done.stderr, folder)


Connect = Callable[..., EngineOutput]


@dataclass
class Http3:
    """A server for *.http3.test."""

    port: int
    authority: Path
    requests: Path

    def asked(self) -> list[dict[str, str]]:
        """Return the header sections of all requests until now."""
        return [json.loads(line) for line in self.requests.read_text().splitlines()]


@pytest.fixture(scope="module")
def http3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Http3]:
    """tests/handshake/server.py, with a certificate for *.http3.test."""
    folder = tmp_path_factory.mktemp("http3")
    authority = make_authority(folder)
    files = issue(authority, "http3", ["*.http3.test"])
    requests = folder / "requests.jsonl"
    requests.touch()
    command = [sys.executable, "-P", "-m", "tests.handshake.server", 0, files.chain, files.key, requests]
    environment = {**os.environ, "PYTHONPATH": str(TREE)}
    process = subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert process.stdout is not None
        ready, port = process.stdout.readline().split()
        assert ready == "READY"
        yield Http3(int(port), authority.path, requests)
        assert process.poll() is None, "the server ended"
    finally:
        process.kill()
        process.wait()
