"""The testbed's own clients: what they refuse, in one line each. Their trials are in guests/."""

from __future__ import annotations

import json
import subprocess

import pytest

from firstflight.system import binaries
from testbed import stacks

PROGRAMS = sorted(
    stack.client.program
    for stack in stacks.load().values()
    if stack.client and stack.client.program and stack.client.program != "firstflight-quic-download"
)
REQUEST = {
    "host": "www.example.test",
    "ip": "127.0.0.2",
    "port": 9,
    "path": "/",
    "timeout_s": 0.2,
    "user_agent": "x",
    "max_bytes": 1,
    "verify": True,
}


def run(program: str, *arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    argv = [str(binaries.find(program)), *arguments]
    return subprocess.run(argv, input=given, capture_output=True, text=True, check=False, timeout=60)


def test_they_are_what_the_manifests_name() -> None:
    assert len(PROGRAMS) >= 4


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize(
    ("arguments", "given", "message"),
    [
        (["nonsense"], "", "nonsense: expected allow-net=CIDR"),
        (["allow-net=10.0.0.0/99"], "", "allow-net=10.0.0.0/99: "),
        (["allow-net=127.0.0.0/8"], "no json\n", '"no json" is no request'),
        (["allow-net=127.0.0.0/8"], '{"ip": "nowhere"}\n', "is no request"),
    ],
)
def test_what_is_wrong_is_one_line(program: str, arguments: list[str], given: str, message: str) -> None:
    done = run(program, *arguments, given=given)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("networks", [[], ["allow-net=127.0.1.0/24"], ["allow-net=::1/128"]])
def test_an_address_outside_the_networks_is_never_contacted(program: str, networks: list[str]) -> None:
    done = run(program, *networks, given=json.dumps({**REQUEST, "roots": "/nowhere"}) + "\n")
    _, answer = (json.loads(line) for line in done.stdout.splitlines())
    assert answer["end"] == "blocked"
    assert "127.0.0.2 is in no network of allow-net" in answer["detail"]


@pytest.mark.parametrize("program", PROGRAMS)
def test_an_address_inside_them_is(program: str) -> None:
    """Without a readable file of roots it fails, but not as blocked."""
    done = run(program, "allow-net=127.0.0.0/24", given=json.dumps({**REQUEST, "roots": "/nowhere"}) + "\n")
    ready, answer = (json.loads(line) for line in done.stdout.splitlines())
    assert "/" in ready["ready"]
    assert answer["end"] in ("connect_failed", "failed")
    assert "/nowhere" in answer["detail"]
    assert answer["tls_us"] is None


@pytest.mark.parametrize("program", PROGRAMS)
def test_they_say_what_they_are(program: str) -> None:
    assert run(program, "--version").stdout == f"{program} 0.1.0\n"
    assert f"Example: {program} allow-net=" in run(program, "--help").stdout
