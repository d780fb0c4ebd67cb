"""The testbed's own servers: what they refuse, in one line each. Their trials are in guests/."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from firstflight.system import binaries
from lab.certificates import issue, make_authority

SERVER = "firstflight-s2n-server"


def endpoint(**more: object) -> dict[str, Any]:
    own = {"domain": "a.test", "ip": "127.0.0.1", "mode": "iack", "delay_us": 1, "certificate": "small"}
    return own | more


@pytest.mark.parametrize(
    ("endpoints", "message"),
    [
        ([endpoint(mode="retry")], "endpoint a.test at 127.0.0.1: mode `retry` is neither iack nor wait"),
        ([endpoint(alpn="h2")], "`alpn` is `h2`, but this server speaks h3 alone"),
        ([endpoint(), endpoint(domain="b.test")], "2 endpoints: this server takes one"),
        ([endpoint(certificate="large")], "there is no certificate `large`"),
        ([endpoint()], "missing.pem: "),
        ([endpoint(http={"status": 200, "headers": [["a b", ""]], "delay_us": 0})], "cannot be sent"),
    ],
)
def test_what_is_wrong_is_one_line(tmp_path: Path, endpoints: list[dict[str, Any]], message: str) -> None:
    files = {"chain": "missing.pem", "key": "missing.key"}
    if "http" in endpoints[0]:
        issued = issue(make_authority(tmp_path), "server", ["a.test"])
        files = {"chain": str(issued.chain), "key": str(issued.key)}
    given = {
        "port": 4433,
        "listen": ["127.0.0.1"],
        "certificates": {"small": files},
        "endpoints": endpoints,
    }
    file = tmp_path / "server.json"
    file.write_text(json.dumps(given), encoding="utf-8")
    argv = [str(binaries.find(SERVER)), "--config", str(file)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_address_that_is_not_here_is_one_line(tmp_path: Path) -> None:
    issued = issue(make_authority(tmp_path), "server", ["a.test"])
    given = {
        "port": 4433,
        "listen": ["192.0.2.1"],
        "certificates": {"small": {"chain": str(issued.chain), "key": str(issued.key)}},
        "endpoints": [endpoint(ip="192.0.2.1")],
    }
    file = tmp_path / "server.json"
    file.write_text(json.dumps(given), encoding="utf-8")
    argv = [str(binaries.find(SERVER)), "--config", str(file)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"{SERVER}: cannot listen on UDP 192.0.2.1:4433: ")
    assert done.stderr.count("\n") == 1
