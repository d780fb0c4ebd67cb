"""The limit of bytes that a download may receive, for each client over QUIC (tests/attack has TCP)."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from downloader.clients import aioquic, curl
from downloader.clients.contract import ClientAnswer, Request
from firstflight.egress.permitted import Permitted
from firstflight.system import binaries, children
from lab.hosts import certificates
from tests.waiting import PATIENCE_S, until

NAME = "files.test"
PORT = 4443
BODY = 3_000_000
LIMIT = 400_000
CLIENTS = ("aioquic", "libcurl", "quiche")


class LoopbackServer(NamedTuple):
    """A QUIC server on loopback and its certificate authority."""

    roots: Path


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoopbackServer]:
    folder = tmp_path_factory.mktemp("server")
    (folder / "www").mkdir()
    (folder / "www" / "file").write_bytes(os.urandom(BODY))
    authority = certificates.make_authority(folder)
    issued = certificates.issue(authority, "files", [NAME])
    argv = [binaries.find("firstflight-files"), "--root", folder / "www", "--certificate", issued.chain]
    argv += ["--key", issued.key, "--listen", f"127.0.0.1:{PORT}"]
    log = folder / "log"
    with log.open("wb") as out:
        process = children.start([str(word) for word in argv], own_session=True, stdout=out, stderr=out)
    try:
        until(lambda: b"READY" in log.read_bytes() or process.poll() is not None, "the server")
        assert process.poll() is None, log.read_text()
        yield LoopbackServer(authority.path)
    finally:
        children.stop(process)


def answer(client: str, server: LoopbackServer, folder: Path, max_wire_bytes: int) -> ClientAnswer:
    request = Request(
        url=f"https://{NAME}:{PORT}/file", host=NAME, ip="127.0.0.1", port=PORT, path="/file",
        user_agent="test", timeout_s=60, max_bytes=2 * BODY, roots=str(server.roots), http="3",
        max_wire_bytes=max_wire_bytes,
    )  # fmt: skip
    permitted = Permitted([], [], ["127.0.0.0/8"])
    if client == "libcurl":
        return curl.answer(request, permitted)
    if client == "aioquic":
        with (folder / "keys").open("w") as keys:
            return aioquic._answer(request, permitted, keys)
    argv = [str(binaries.find("firstflight-quic-download")), "allow-net=127.0.0.0/8"]
    done = subprocess.run(argv, input=request.line(), capture_output=True, check=True, timeout=PATIENCE_S)
    return ClientAnswer.of(done.stdout.splitlines(keepends=True)[1])


@pytest.mark.parametrize("client", CLIENTS)
def test_a_download_ends_when_it_has_had_its_share_of_the_network(
    server: LoopbackServer, tmp_path: Path, client: str
) -> None:
    found = answer(client, server, tmp_path, LIMIT)
    assert found.end == "wire_limit" and found.wire_bytes is not None and found.wire_bytes > LIMIT
    assert found.body_bytes < BODY
    assert found.detail is not None and f"for {found.body_bytes} bytes of the body" in found.detail


@pytest.mark.parametrize("client", CLIENTS)
def test_a_complete_download_counts_its_wire_bytes(
    server: LoopbackServer, tmp_path: Path, client: str
) -> None:
    found = answer(client, server, tmp_path, 10 * BODY)
    assert (found.end, found.body_bytes) == ("complete", BODY), found.detail
    # On loopback, the interface also receives the client's own packets.
    assert found.wire_bytes is not None and BODY < found.wire_bytes < 2 * BODY
    assert json.loads(found.line())["wire_bytes"] == found.wire_bytes
