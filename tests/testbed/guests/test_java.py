"""Clients in Java, which `make testbed-setup` builds: their build, and requests that they refuse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from firstflight.errors import FirstflightError, UsageError
from firstflight.system import binaries
from testbed import stacks
from testbed.stacks import java, separate_package
from tests.testbed import client_checks as checks

PROGRAMS = separate_package.packages("pom.xml")


def test_a_build_is_kept_until_its_sources_change() -> None:
    jar = binaries.repository() / "target/release/kwik/kwik-client.jar"
    built = jar.stat().st_mtime_ns
    assert list(PROGRAMS) == ["firstflight-kwik-client"]
    for program, folder in PROGRAMS.items():
        java.build(program, folder)
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
