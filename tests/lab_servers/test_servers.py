"""The servers that the lab starts, their files and their certificates."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.verification import PolicyBuilder, Store

from firstflight.errors import UsageError
from lab import stacks
from lab.declared import internet
from lab.declared.model import Endpoint
from lab.hosts.certificates import issue, make_authority
from lab.hosts.servers import CHAIN_BYTES, services
from tests.waiting import PATIENCE_S

from .running import endpoint


@dataclass(frozen=True)
class ServerEndpoints:
    endpoints: tuple[Endpoint, ...]


def test_every_endpoint_of_the_lab_has_one_server(state: Path) -> None:
    world = internet.load()
    started = services(world, state)
    served: dict[tuple[str, str], tuple[str, str, str, int | None, str]] = {}
    for service in started:
        file = Path(service.argv[-1])
        content = json.loads(file.read_text())
        assert content["port"] == 443
        assert len(set(content["listen"])) == len(content["listen"])
        for entry in content["endpoints"]:
            assert entry["ip"] in content["listen"]
            assert (entry["ip"], entry["domain"]) not in served
            served[entry["ip"], entry["domain"]] = (
                service.host,
                service.name.split(" on ")[0],
                entry["mode"],
                entry["delay_us"],
                entry["certificate"],
            )
    assert served == {
        (endpoint.ip, endpoint.domain): (
            endpoint.host,
            endpoint.stack,
            endpoint.mode,
            endpoint.delay_us,
            endpoint.certificate,
        )
        for endpoint in world.endpoints
        if endpoint.stack != "none"
    }
    assert {service.name.split(" on ")[0] for service in started} == {"quiche", "aioquic", "quic-go", "rogue"}


def test_an_address_belongs_to_one_stack(state: Path) -> None:
    first = endpoint("quiche", "wait", None)
    second = replace(first, stack="rogue", mode="silent", domain="b.small.test")
    with pytest.raises(UsageError, match="separate addresses"):
        services(ServerEndpoints((first, second)), state)


def test_chains_verify_and_have_their_length(state: Path) -> None:
    authority = make_authority(state)
    for size, length in CHAIN_BYTES.items():
        files = issue(authority, size, ["*.shop.test"], chain_bytes=length)
        leaf, *above = x509.load_pem_x509_certificates(files.chain.read_bytes())
        total = sum(len(certificate.public_bytes(Encoding.DER)) for certificate in [leaf, *above])
        assert length - 5 <= total <= length + 45
        store = Store([x509.load_pem_x509_certificate(authority.path.read_bytes())])
        verifier = PolicyBuilder().store(store).time(datetime.now(UTC))
        chain = verifier.build_server_verifier(x509.DNSName("a.shop.test")).verify(leaf, above)
        assert len(chain) == len(above) + 2
        assert stat.S_IMODE(files.key.stat().st_mode) == 0o600


def test_a_chain_that_is_longer_already_is_refused(state: Path) -> None:
    with pytest.raises(UsageError, match="bytes more than 300"):
        issue(make_authority(state), "short", ["a.test"], chain_bytes=300)


def test_the_authority_stays(state: Path) -> None:
    assert make_authority(state).certificate == make_authority(state).certificate


@pytest.mark.parametrize("stack", stacks.load())
def test_a_wrong_configuration_is_one_sentence(stack: str, tmp_path: Path) -> None:
    """A missing file, invalid JSON or an unknown mode gives exit status 2 and one line, without traceback."""
    good = {
        "port": 4433,
        "listen": ["127.0.0.1"],
        "certificates": {"small": {"chain": "missing.pem", "key": "missing.key"}},
        "endpoints": [
            {"domain": "a.test", "ip": "127.0.0.1", "mode": "dance", "delay_us": 1, "certificate": "small"}
        ],
    }
    cases = {"absent.json": None, "broken.json": '{"port": ', "mode.json": json.dumps(good)}
    for name, text in cases.items():
        file = tmp_path / name
        if text is not None:
            file.write_text(text)
        argv = stacks.find(stack).command(file)
        ended = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE_S, env=dict(os.environ))
        assert ended.returncode == 2, ended
        assert ended.stdout == ""
        assert len(ended.stderr.splitlines()) == 1, ended.stderr
        assert name in ended.stderr
