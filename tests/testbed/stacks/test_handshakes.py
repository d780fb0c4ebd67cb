"""Handshakes with Retry, and resumed sessions with 0-RTT, over loopback (trials: tests/testbed/guests)."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from aioquic._buffer import Buffer
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.packet import QuicPacketType, pull_quic_header

from lab.hosts.certificates import ServerCertificate, make_authority
from lab.stacks.aioquic import config
from testbed import stacks
from testbed.experiment.cell import Cell
from testbed.stacks import own_server
from testbed.trials import block, server_config
from tests.testbed import client_checks, loopback
from tests.waiting import PATIENCE_S

EARLY = "CLIENT_EARLY_TRAFFIC_SECRET"


def cell(**given: Any) -> Cell:
    return Cell(**{"client": "aioquic", "server": "aioquic", "answering": "iack", **given})


@contextmanager
def serving(folder: Path, server: str, **endpoint: object) -> Iterator[dict[str, Any]]:
    """Run a server on loopback, and yield its configuration, with `endpoint` changed."""
    given = loopback.configuration(folder, server)
    given["endpoints"][0] |= endpoint
    file = folder / "server.json"
    file.write_text(json.dumps(given), encoding="utf-8")
    argv = [*stacks.find(server).server_command(), "--config", str(file)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as running:
        try:
            assert running.stdout is not None and running.stdout.readline().strip() == b"READY"
            yield given
        finally:
            running.kill()


def asked(folder: Path, client: str, port: int, *, times: int, **request: object) -> list[dict[str, Any]]:
    """Return a client's answers to the same request, sent `times` times."""
    line = {
        **client_checks.REQUEST,
        **request,
        "url": f"https://{loopback.NAME}:{port}/",
        "max_bytes": 1 << 20,
        "http": "3",
        "host": loopback.NAME,
        "ip": "127.0.0.1",
        "port": port,
        "timeout_s": 120,
        "roots": str(make_authority(folder).path),
    }
    done = subprocess.run(
        [*stacks.find(client).client_command(logged=False), "allow-net=127.0.0.0/8"],
        input=times * (json.dumps(line) + "\n"),
        env={**os.environ, "SSLKEYLOGFILE": str(folder / "keys")},
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
    )
    return [json.loads(answer) for answer in done.stdout.splitlines()[1:]]


def first_type(port: int) -> QuicPacketType:
    """Return the type of the first packet with which a server answers an Initial."""
    quic = QuicConnection(configuration=QuicConfiguration(server_name=loopback.NAME, alpn_protocols=["h3"]))
    quic.connect(("127.0.0.1", port), now=0)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.settimeout(60)
        for datagram, address in quic.datagrams_to_send(now=0):
            udp.sendto(datagram, address)
        return pull_quic_header(Buffer(data=udp.recv(2000)), host_cid_length=8).packet_type


@pytest.mark.parametrize("server", ["aioquic", "quiche"])
@pytest.mark.parametrize("mode", ["retry", "retry_iack"])
def test_a_server_sends_a_retry_and_then_completes(tmp_path: Path, server: str, mode: str) -> None:
    with serving(tmp_path, server, mode=mode) as given:
        assert first_type(given["port"]) == QuicPacketType.RETRY
        (answer,) = asked(tmp_path, "quinn", given["port"], times=1)
    assert (answer["end"], answer["detail"], answer["status"]) == ("complete", None, 200)


@pytest.mark.parametrize(("tickets", "resume"), [(True, True), (True, False), (False, True)])
def test_a_session_resumes_if_both_sides_want_it(tmp_path: Path, tickets: bool, resume: bool) -> None:
    """The first request has no ticket; each later one has the newest ticket, and 0-RTT packets."""
    more = {"tickets": True} if tickets else {}
    with serving(tmp_path, "aioquic", mode="iack", **more) as given:
        asking = {"resume": True} if resume else {}
        answers = asked(tmp_path, "aioquic", given["port"], times=3, **asking)
    assert [(answer["end"], answer["detail"]) for answer in answers] == [("complete", None)] * 3
    early = (tmp_path / "keys").read_text(encoding="ascii").count(EARLY)
    assert early == (2 if tickets and resume else 0)


def test_endpoints_of_an_address_agree_in_retry(tmp_path: Path) -> None:
    given = loopback.configuration(tmp_path, "aioquic")
    other = {**given["endpoints"][0], "domain": "b.test", "mode": "retry"}
    file = tmp_path / "server.json"
    file.write_text(json.dumps({**given, "endpoints": [*given["endpoints"], other]}), encoding="utf-8")
    with pytest.raises(ValueError, match=r"a\.test and b\.test have one address, but differ in Retry"):
        config.read(file)


@pytest.mark.parametrize(
    ("given", "mode", "tickets"),
    [
        ({}, "iack", None),
        ({"answering": "wfc"}, "wait", None),
        ({"handshake": "retry"}, "retry_iack", None),
        ({"handshake": "retry", "answering": "wfc"}, "retry", None),
        ({"handshake": "resumed"}, "iack", True),
    ],
)
def test_a_cell_configures_its_server(
    tmp_path: Path, given: dict[str, str], mode: str, tickets: object
) -> None:
    files = ServerCertificate(tmp_path / "chain.pem", tmp_path / "key.pem")
    made = server_config.configuration(cell(**given), "a.test", "h3", files, launch_times=False)
    (endpoint,) = made["endpoints"]
    assert (endpoint["mode"], endpoint.get("tickets")) == (mode, tickets)
    own = own_server.argv(["{retry}-r", "{no_gso}-0", "{mode}"], made, tmp_path)
    retries = given.get("handshake") == "retry"
    assert own == [*(["-r"] if retries else []), "-0", "wait" if given.get("answering") == "wfc" else "iack"]


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"handshake": "retry"}, None),
        ({"handshake": "resumed"}, None),
        ({"handshake": "retry", "server": "s2n-quic"}, "the server s2n-quic sends no Retry"),
        ({"handshake": "resumed", "server": "quiche"}, "the server quiche resumes no sessions here"),
        ({"handshake": "resumed", "client": "quinn"}, "the client quinn resumes no sessions here"),
    ],
)
def test_cells_need_stacks_with_their_handshake(given: dict[str, str], reason: str | None) -> None:
    made = cell(**given)
    assert block.blocks("x", made, 1)[0].unavailable() == reason
    assert made.name.endswith(f"-9ms-{given['handshake']}")


def test_full_handshakes_keep_their_names_and_seeds() -> None:
    plain, resumed = cell(), cell(handshake="resumed")
    assert plain.name == "aioquic-aioquic-iack-9ms"
    assert "handshake" not in block.seed_text(plain)
    assert block.seed_text(resumed).endswith('"handshake":"resumed"}')
