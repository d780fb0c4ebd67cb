"""Encrypted ClientHello with a server that has it: Go's crypto/tls in the lab's quic-go."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from tests.handshake.conftest import HOST, connect
from tests.lab_servers.running import RunningServer, endpoint, running

NAME, PUBLIC_NAME, CONFIG_ID = "hidden.small.test", "public.small.test", 42
Connect = Callable[..., dict[str, Any]]
ALERT_ECH_REQUIRED = 121  # RFC 9849 5


@dataclass
class Encrypting:
    """A server and the configuration that its name would have in DNS."""

    running: RunningServer
    config: bytes


def _config(key: X25519PrivateKey) -> bytes:
    """Return an ECHConfig (RFC 9849 4) for X25519 with HKDF-SHA256 and AES-128-GCM."""
    public = key.public_key().public_bytes_raw()
    contents = bytes([CONFIG_ID]) + (0x20).to_bytes(2) + len(public).to_bytes(2) + public
    contents += (4).to_bytes(2) + bytes([0, 1, 0, 1])
    contents += bytes([0, len(PUBLIC_NAME)]) + PUBLIC_NAME.encode() + bytes(2)
    return (0xFE0D).to_bytes(2) + len(contents).to_bytes(2) + contents


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Encrypting]:
    key = X25519PrivateKey.generate()
    config = _config(key)
    encoded = {"config": config, "key": key.private_bytes_raw()}
    keys = [{name: base64.b64encode(value).decode() for name, value in encoded.items()}]
    names = [endpoint("quic-go", "wait", None, domain=name) for name in (PUBLIC_NAME, NAME)]
    with running(tmp_path_factory.mktemp("quic-go"), "quic-go", names, {"ech": keys}) as found:
        yield Encrypting(found, config)


def _listed(folder: Path, config: bytes) -> Path:
    path = folder / "ech.csv"
    text = base64.b64encode(len(config).to_bytes(2) + config).decode()
    path.write_text(f"domain,ech\n{NAME},{text}\n")
    return path


@pytest.fixture
def connected(server: Encrypting, tmp_path: Path) -> Connect:
    def run(*options: object) -> dict[str, Any]:
        targets = [(HOST, NAME, server.running.port)]
        return connect(tmp_path, targets, *options).row(NAME)

    return run


def test_grease_brings_the_configurations_of_the_server(connected: Connect) -> None:
    row = connected("--ech", "grease")
    assert (row["outcome"], row["ech_offered"], row["ech_accepted"]) == ("done", "grease", None), row
    assert row["ech_retry_config_ids"] == [CONFIG_ID] and row["ech_retry_public_names"] == [PUBLIC_NAME]


def test_without_an_offer_the_columns_are_null(connected: Connect) -> None:
    row = connected()
    assert (row["outcome"], row["ech_offered"], row["ech_accepted"]) == ("done", None, None)
    assert row["ech_retry_config_ids"] == row["ech_retry_public_names"] == []


def test_a_real_one_is_taken(connected: Connect, server: Encrypting, tmp_path: Path) -> None:
    row = connected("--ech-configs", _listed(tmp_path, server.config))
    assert (row["outcome"], row["ech_offered"], row["ech_accepted"]) == ("done", "config", True), row
    assert row["ech_retry_config_ids"] == []


def test_one_with_another_key_is_not(connected: Connect, tmp_path: Path) -> None:
    row = connected("--ech-configs", _listed(tmp_path, _config(X25519PrivateKey.generate())))
    found = (row["outcome"], row["ech_offered"], row["ech_accepted"], row["alert"], row["alert_by"])
    assert found == ("handshake_failed", "config", False, ALERT_ECH_REQUIRED, "client"), row
    assert row["ech_retry_config_ids"] == [CONFIG_ID] and row["ech_retry_public_names"] == [PUBLIC_NAME]


def test_a_wrong_file_sends_nothing(server: Encrypting, tmp_path: Path) -> None:
    (tmp_path / "ech.csv").write_text(f"domain,ech\n{NAME},AAAA\n")
    target = (HOST, NAME, server.running.port)
    for options, status, message in [
        (("--ech-configs", tmp_path / "ech.csv"), 3, "line 2: this ECH configuration is not usable"),
        (("--ech-configs", tmp_path / "missing"), 3, "nothing was sent"),
        (("--ech-configs", tmp_path / "ech.csv", "--sni", "none"), 2, "remove --sni none"),
    ]:
        done = connect(tmp_path, [target], *options)
        assert done.status == status and message in done.messages and not done.rows
