"""The testbed's client of quic-go: what it refuses, in one line each. Its trials are in guests/."""

from __future__ import annotations

import json
import subprocess

import pytest

from firstflight.system import binaries

REQUEST = {"host": "www.example.test", "ip": "127.0.0.2", "port": 9, "path": "/", "timeout_s": 0.2}


def run(*arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    argv = [str(binaries.find("firstflight-quicgo-client")), *arguments]
    return subprocess.run(argv, input=given, capture_output=True, text=True, check=False, timeout=30)


@pytest.mark.parametrize(
    ("arguments", "given", "message"),
    [
        (["nonsense"], "", "nonsense: expected allow-net=CIDR"),
        (["allow-net=10.0.0.0/99"], "", "allow-net=10.0.0.0/99: "),
        (["allow-net=127.0.0.0/8"], "no json\n", '"no json" is no request'),
        (["allow-net=127.0.0.0/8"], '{"ip": "nowhere"}\n', "is no request"),
    ],
)
def test_what_is_wrong_is_one_line(arguments: list[str], given: str, message: str) -> None:
    done = run(*arguments, given=given)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("networks", [[], ["allow-net=127.0.1.0/24"], ["allow-net=::1/128"]])
def test_an_address_outside_the_networks_is_never_contacted(networks: list[str]) -> None:
    done = run(*networks, given=json.dumps({**REQUEST, "roots": "/nowhere"}) + "\n")
    _, answer = (json.loads(line) for line in done.stdout.splitlines())
    assert answer["end"] == "blocked"
    assert "127.0.0.2 is in no network of allow-net" in answer["detail"]


def test_an_address_inside_them_is() -> None:
    """Without a readable file of roots it fails, but not as blocked."""
    done = run("allow-net=127.0.0.0/24", given=json.dumps({**REQUEST, "roots": "/nowhere"}) + "\n")
    ready, answer = (json.loads(line) for line in done.stdout.splitlines())
    assert ready["ready"].startswith("quic-go/0.")
    assert (answer["end"], answer["tls_us"]) == ("connect_failed", None)
