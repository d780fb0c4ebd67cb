"""Clients in Java, which `make testbed-setup` builds: their build, and what they refuse."""

from __future__ import annotations

import json
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from firstflight.errors import FirstflightError, UsageError
from firstflight.system import binaries
from lab.certificates import Authority, issue, make_authority
from testbed import java, server_config, stacks
from testbed.cell import Cell
from tests.testbed import client_checks as checks

PROGRAMS = java.programs()
NAME = "a.test"


def test_what_is_built_stays_until_its_sources_change() -> None:
    jar = binaries.repository() / "target/release/kwik/kwik-client.jar"
    built = jar.stat().st_mtime_ns
    assert java.build_all() == PROGRAMS == ["firstflight-kwik-client"]
    assert jar.stat().st_mtime_ns == built
    assert (jar.parent / f"kwik-{stacks.find('kwik').version.text()}.jar").is_file()


def test_a_build_that_fails_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pom.xml").write_text("<project></project>", encoding="utf-8")
    with pytest.raises(FirstflightError, match=r"^mvn failed in .*: .+") as error:
        java.package(tmp_path, tmp_path / "out")
    assert "\n" not in str(error.value)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match=r"javac is not installed, .* run `make testbed-setup`$"):
        java.package(tmp_path, tmp_path / "out")


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize(("arguments", "given", "message"), checks.WRONG)
def test_what_is_wrong_is_one_line(program: str, arguments: list[str], given: str, message: str) -> None:
    checks.refuses_in_one_line(program, arguments, given, message)


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("networks", checks.ELSEWHERE)
def test_an_address_outside_the_networks_is_never_contacted(program: str, networks: list[str]) -> None:
    checks.contacts_no_other_address(program, networks)


@pytest.mark.parametrize("program", PROGRAMS)
def test_they_need_their_roots_and_say_what_they_are(program: str) -> None:
    checks.needs_its_roots(program)
    checks.says_what_it_is(program)


@pytest.mark.parametrize(
    ("program", "change", "message"),
    [
        (program, change, message)
        for program in PROGRAMS
        for change, message in (
            ({"timeout_s": -1}, "timeout_s: -1.0 is not between"),
            ({"timeout_s": "soon"}, "timeout_s"),
            ({"verify": False}, "leave `verify` true"),
            ({"port": 65_536}, "port: 65536 is not between 1 and 65535"),
            ({"ip": "127.0.0.256"}, "is no IP address"),
            ({"ip": "localhost"}, "is no IP address"),
        )
    ],
)
def test_a_request_that_cannot_be_is_one_line(program: str, change: dict[str, Any], message: str) -> None:
    given = json.dumps({**checks.REQUEST, "roots": "/nowhere", **change}) + "\n"
    checks.refuses_in_one_line(program, ["allow-net=127.0.0.0/8"], given, message)


def ask(tmp_path: Path, authority: Authority, names: list[str], roots: Path, body_bytes: int = 0) -> Any:
    """Return kwik's answer to a request to the server quiche, whose certificate has `names`."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    cell = Cell(client="kwik", server="quiche", answering="wfc", body_bytes=body_bytes)
    files = issue(authority, "server", names)
    given = server_config.configuration(cell, NAME, "h3", files, launch_times=False)
    given |= {"port": port, "listen": ["127.0.0.1"]}
    given["endpoints"][0]["ip"] = "127.0.0.1"
    file = tmp_path / "server.json"
    file.write_text(json.dumps(given), encoding="utf-8")
    request = {**checks.REQUEST, "host": NAME, "ip": "127.0.0.1", "port": port, "roots": str(roots)}
    line = json.dumps({**request, "timeout_s": 20, "max_bytes": 1 << 30}) + "\n"
    argv = [*stacks.find("quiche").server_command(), "--config", str(file)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as server:
        try:
            assert server.stdout is not None and server.stdout.readline().strip() == b"READY"
            done = checks.run("firstflight-kwik-client", "allow-net=127.0.0.0/8", given=line)
        finally:
            server.kill()
    return json.loads(done.stdout.splitlines()[1])


@pytest.mark.parametrize("body_bytes", [0, 300_000])
def test_kwik_gets_the_response_and_leaves_its_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body_bytes: int
) -> None:
    keys = tmp_path / "keys"
    keys.write_text("EARLIER\n", encoding="utf-8")
    monkeypatch.setenv("SSLKEYLOGFILE", str(keys))
    authority = make_authority(tmp_path)
    answer = ask(tmp_path, authority, [NAME], authority.path, body_bytes)
    assert (answer["end"], answer["detail"], answer["status"]) == ("complete", None, 200)
    assert answer["body_bytes"] == body_bytes
    assert 0 < answer["tls_us"] < answer["duration_us"]
    # Those of a connection come behind those of earlier ones.
    lines = [line.split(" ")[0] for line in keys.read_text(encoding="utf-8").splitlines()]
    assert lines[0] == "EARLIER"
    assert {"CLIENT_HANDSHAKE_TRAFFIC_SECRET", "SERVER_TRAFFIC_SECRET_0"} <= set(lines[1:])
    assert not list(tmp_path.glob("keys.*"))


def test_kwik_trusts_no_other_root_and_no_other_name(tmp_path: Path) -> None:
    authority, other = make_authority(tmp_path), make_authority(tmp_path / "other")
    for names, roots in (([NAME], other.path), (["b.test"], authority.path)):
        answer = ask(tmp_path, authority, names, roots)
        assert (answer["end"], answer["status"], answer["tls_us"]) == ("connect_failed", None, None)
        assert "certificate" in answer["detail"].lower(), answer
