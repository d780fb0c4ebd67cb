"""Shared checks of the testbed's clients: bad arguments, blocked addresses and version output."""

from __future__ import annotations

import json
import subprocess
from ipaddress import ip_network
from pathlib import Path

from firstflight import egress
from firstflight.system import binaries
from testbed import stacks
from tests.waiting import PATIENCE_S

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
WRONG: tuple[tuple[list[str], str, str], ...] = (
    (["nonsense"], "", "nonsense: expected allow-net=CIDR"),
    (["allow-net=10.0.0.0/99"], "", "allow-net=10.0.0.0/99: "),
    *(
        ([f"allow-net={network}"], "", f"allow-net={network}: it must lie inside loopback, RFC 1918")
        for network in ("0.0.0.0/0", "8.8.8.0/24", "10.0.0.0/7", "::/0", "2001:db8::/31")
    ),
    (["allow-net=127.0.0.0/8"], "no json\n", '"no json" is no request'),
    (["allow-net=127.0.0.0/8"], '{"ip": "nowhere"}\n', "is no request"),
)
"""Arguments, standard input, a part of the message."""
ELSEWHERE: tuple[list[str], ...] = ([], ["allow-net=127.0.1.0/24"], ["allow-net=::1/128"])
"""Networks that the request's address is not in."""


def programs() -> list[str]:
    """Return the clients that `make setup` builds."""
    clients = [stack.client for stack in stacks.load().values() if stack.client]
    names = [
        str(definition.program) for definition in clients if definition.program and not definition.package
    ]
    return sorted(name for name in names if name != "firstflight-quic-download")


def run(program: str, *arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    """Run a client until it exits."""
    argv = [str(binaries.find(program)), *arguments]
    return subprocess.run(argv, input=given, capture_output=True, text=True, check=False, timeout=PATIENCE_S)


def refuses_in_one_line(program: str, arguments: list[str], given: str, message: str) -> None:
    """Check that a client refuses an entry of WRONG with one line on standard error."""
    done = run(program, *arguments, given=given)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def contacts_no_other_address(program: str, networks: list[str]) -> None:
    """Check that an address outside the networks is blocked."""
    done = run(program, *networks, given=json.dumps({**REQUEST, "roots": "/nowhere"}) + "\n")
    _, answer = (json.loads(line) for line in done.stdout.splitlines())
    assert answer["end"] == "blocked"
    assert "127.0.0.2 is in no network of allow-net" in answer["detail"]


def takes_the_networks_of_the_policy(program: str) -> None:
    """Check that it accepts each range in which --allow-net is allowed, and no network of twice that size."""
    lines = Path(egress.__file__).with_name("special_networks.csv").read_text(encoding="utf-8").splitlines()
    ranges = [ip_network(line.split(",")[0]) for line in lines if ",allowable," in line]
    assert len(ranges) == 8
    done = run(program, *(f"allow-net={network}" for network in ranges))
    assert (done.returncode, done.stderr) == (0, "")
    for network in ranges:
        wider = network.supernet()
        assert run(program, f"allow-net={wider}").returncode == 2, wider


def needs_its_roots(program: str) -> None:
    """Check that an address inside the networks is not blocked, but fails without a readable roots file."""
    done = run(program, "allow-net=127.0.0.0/24", given=json.dumps({**REQUEST, "roots": "/nowhere"}) + "\n")
    ready, answer = (json.loads(line) for line in done.stdout.splitlines())
    assert "/" in ready["ready"]
    assert answer["end"] in ("connect_failed", "failed")
    assert "/nowhere" in answer["detail"]
    assert answer["tls_us"] is None


def says_what_it_is(program: str) -> None:
    """Check --version and --help, and that it names the version of the stack that is in it."""
    ready = json.loads(run(program, "allow-net=127.0.0.0/8").stdout)["ready"]
    (stack,) = (
        name
        for name, definition in stacks.load().items()
        if program
        in (
            definition.client and definition.client.program,
            definition.logging and definition.logging.program,
        )
    )
    assert ready == f"{stack}/{stacks.find(stack).version.known()}"
    assert run(program, "--version").stdout == f"{program} 0.1.0\n"
    assert f"Example: {program} allow-net=" in run(program, "--help").stdout
