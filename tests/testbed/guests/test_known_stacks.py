"""The handshake engine names the stacks of the testbed's servers."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from scanner.handshake import fingerprints
from testbed import stacks
from tests.handshake.conftest import ENDS_S, HOST, connect
from tests.testbed import loopback

SERVERS = {
    "quic-go": "quic-go",
    "quinn": "quinn",
    "s2n-quic": "s2n-quic",
    "ngtcp2-gnutls": "ngtcp2",
    "picoquic": "picoquic",
}
"""Server -> stack. tests/handshake/stacks/test_stacks.py has the lab's servers."""
PERMUTES = {"quinn"}


@pytest.mark.parametrize("server", SERVERS)
def test_a_server_has_the_name_of_its_stack(tmp_path: Path, server: str) -> None:
    given = loopback.configuration(tmp_path, server)
    file = tmp_path / "server.json"
    file.write_text(json.dumps(given), encoding="utf-8")
    argv = [*stacks.find(server).server_command(), "--config", str(file)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as running:
        try:
            assert running.stdout is not None and running.stdout.readline().strip() == b"READY"
            # Two handshakes, because one does not show whether the server permutes its parameters.
            targets = [(HOST, name, given["port"]) for name in (loopback.NAME, f"b.{loopback.NAME}")]
            found = connect(tmp_path, targets, "--timeout", ENDS_S, "--verify", "none")
        finally:
            running.kill()
    assert {(row["outcome"], row["stack"]) for row in found.rows} == {("done", SERVERS[server])}, found.rows
    seen = {row["stack_fingerprint"] for row in found.rows}
    assert fingerprints.merged(seen)[1] == (server in PERMUTES), seen
