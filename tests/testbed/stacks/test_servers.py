"""The testbed's own servers refuse bad configurations with one line each (trials: tests/testbed/guests)."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from firstflight.system import binaries
from lab.hosts.certificates import issue, make_authority
from testbed import stacks
from tests.testbed import loopback
from tests.waiting import PATIENCE_S

SERVER = "firstflight-s2n-server"


def endpoint(**more: object) -> dict[str, Any]:
    defaults = {"domain": "a.test", "ip": "127.0.0.1", "mode": "iack", "delay_us": 1, "certificate": "small"}
    return defaults | more


@pytest.mark.parametrize(
    ("endpoints", "message"),
    [
        ([endpoint(mode="retry")], "endpoint a.test at 127.0.0.1: mode `retry` is neither iack nor wait"),
        ([endpoint(alpn="h2")], "`alpn` is `h2`, but this server supports only h3"),
        ([endpoint(), endpoint(domain="b.test")], "2 endpoints: this server takes one"),
        ([endpoint(certificate="large")], "there is no certificate `large`"),
        ([endpoint()], "missing.pem: "),
        ([endpoint(http={"status": 200, "headers": [["a b", ""]], "delay_us": 0})], "cannot be sent"),
    ],
)
def test_errors_are_one_line(tmp_path: Path, endpoints: list[dict[str, Any]], message: str) -> None:
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
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_foreign_address_is_one_line(tmp_path: Path) -> None:
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
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"{SERVER}: cannot listen on UDP 192.0.2.1:4433: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("stack", ["aioquic", "quiche", "s2n-quic"])
@pytest.mark.parametrize("body_bytes", [0, 300_000])
def test_a_response_has_the_body_that_is_declared(tmp_path: Path, stack: str, body_bytes: int) -> None:
    """The client is quinn. Only `make testbed-setup` builds the servers quic-go and quinn."""
    given = loopback.configuration(tmp_path, stack, body_bytes)
    # As configured for a trial, but for the address.
    assert bool(given.get("transport")) == stacks.find(stack).launch_times
    answer = loopback.answer(tmp_path, "quinn", stack, given)
    assert (answer["end"], answer["detail"], answer["status"]) == ("complete", None, 200)
    assert answer["body_bytes"] == body_bytes


def test_the_server_quiche_writes_datagrams_and_windows(tmp_path: Path) -> None:
    """Each has a line with a time of this machine's clock. The server is killed, so the last may be cut."""
    log = tmp_path / "sender.jsonl"
    given = loopback.configuration(tmp_path, "quiche", 3_000_000)
    given["transport"] = {"log": str(log)}
    begun_ns = time.time_ns()
    answer = loopback.answer(tmp_path, "quinn", "quiche", given)
    assert answer["end"] == "complete"
    whole = log.read_text(encoding="utf-8").rpartition("\n")[0]
    lines = [json.loads(line) for line in whole.splitlines()]
    assert all(begun_ns <= entry["time_ns"] <= time.time_ns() + 10**9 for entry in lines)
    tags = [entry["tag"] for entry in lines if "tag" in entry]
    assert len(set(tags)) > 1000 and {len(tag) for tag in tags} == {32}
    windows = [entry["window_bytes"] for entry in lines if "window_bytes" in entry]
    assert windows[0] < max(windows)


@pytest.mark.parametrize(
    ("transport", "message"),
    [
        ({"ack_eliciting_threshold": 9}, "`transport` asks for settings that this server does not have"),
        ({"congestion_control": "vegas"}, "`vegas` is none of cubic, reno and bbr"),
        ({"launch_clock": "boottime"}, "neither monotonic nor tai"),
        ({"pace": 1}, "unknown field `pace`"),
        ({"log": "/missing/sender.jsonl"}, "cannot write /missing/sender.jsonl: "),
    ],
)
def test_the_server_quiche_refuses_settings_that_it_lacks(
    tmp_path: Path, transport: dict[str, Any], message: str
) -> None:
    issued = issue(make_authority(tmp_path), "server", ["a.test"])
    given = {
        "port": 0,
        "listen": ["127.0.0.1"],
        "certificates": {"small": {"chain": str(issued.chain), "key": str(issued.key)}},
        "endpoints": [endpoint()],
        "transport": transport,
    }
    file = tmp_path / "server.json"
    file.write_text(json.dumps(given), encoding="utf-8")
    argv = [*stacks.find("quiche").server_command(), "--config", str(file)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert done.returncode in (1, 2)
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
