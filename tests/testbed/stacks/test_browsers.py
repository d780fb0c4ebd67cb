"""Browsers as clients over loopback with real servers: a resource, its secrets, and refused requests."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from downloader.clients import shared
from downloader.clients.contract import ClientAnswer, Request
from firstflight.errors import UsageError
from lab.hosts.certificates import FLAWS, Flaw, make_authority
from testbed import stacks
from testbed.stacks.browsers import chromium, devtools, firefox, session
from testbed.trials import compare_runs, estimate, series
from tests.testbed import client_checks as checks
from tests.testbed import loopback
from tests.testbed.experiments import find
from tests.waiting import PATIENCE_S

BROWSERS = ("chromium", "firefox")
REQUEST: dict[str, Any] = {**checks.REQUEST, "url": "https://www.example.test:9/", "roots": "/x", "http": "3"}


@pytest.mark.parametrize("browser", BROWSERS)
@pytest.mark.parametrize("server", ["aioquic", "quiche"])
def test_a_resource_is_complete(tmp_path: Path, browser: str, server: str) -> None:
    keys = tmp_path / "keys"
    given = loopback.configuration(tmp_path, server, 300_000)
    found = loopback.answer(tmp_path, browser, server, given, environment={"SSLKEYLOGFILE": str(keys)})
    assert (found["end"], found["detail"], found["status"]) == ("complete", None, 200)
    assert (found["http_version"], found["body_bytes"], found["tls_verified"]) == ("3", 300_000, True)
    assert found["duration_us"] > 0 and found["started_at"] > 0
    labels = {line.split()[0] for line in keys.read_text(encoding="utf-8").splitlines()}
    assert {"CLIENT_HANDSHAKE_TRAFFIC_SECRET", "CLIENT_TRAFFIC_SECRET_0"} <= labels


@pytest.mark.parametrize("browser", BROWSERS)
def test_several_responses_use_one_connection(tmp_path: Path, browser: str) -> None:
    keys = tmp_path / "keys"
    given = loopback.configuration(tmp_path, "quiche", 100_000)
    environment = {"SSLKEYLOGFILE": str(keys)}
    asked = {"responses": 3, "think_s": 0.2}
    found = loopback.answer(tmp_path, browser, "quiche", given, environment=environment, asked=asked)
    assert (found["end"], found["detail"], found["body_bytes"]) == ("complete", None, 300_000)
    assert found["duration_us"] > 400_000
    lines = keys.read_text(encoding="utf-8").splitlines()
    assert sum(line.startswith("CLIENT_TRAFFIC_SECRET_0 ") for line in lines) == 1


@pytest.mark.parametrize(
    ("ends", "responses", "expected"),
    [
        (["complete"], 1, ("complete", 10, 5)),
        (["complete", "complete", "complete"], 3, ("complete", 30, None)),
        (["complete", "reset"], 3, ("reset", 20, 5)),
        (["timeout"], 2, ("timeout", 10, 5)),
    ],
)
def test_an_incomplete_response_is_the_last(
    ends: list[str], responses: int, expected: tuple[str, int, int | None]
) -> None:
    """Complete responses have a common time; an incomplete one has its own."""
    left = [
        ClientAnswer(end, started_at=number, body_bytes=10, duration_us=5) for number, end in enumerate(ends)
    ]
    request = Request(**{**REQUEST, "responses": responses, "think_s": 0.001})
    found = session.repeated(request, lambda: left.pop(0))
    assert (found.end, found.body_bytes, left) == (*expected[:2], [])
    if expected[2] is None:
        assert found.started_at == 0 and (found.duration_us or 0) >= 2000
    else:
        assert found.duration_us == expected[2]


@pytest.mark.parametrize("browser", BROWSERS)
@pytest.mark.parametrize("flaw", FLAWS)
def test_a_certificate_is_verified(tmp_path: Path, browser: str, flaw: Flaw) -> None:
    given = loopback.configuration(tmp_path, "quiche", flaw=flaw)
    found = loopback.answer(tmp_path, browser, "quiche", given)
    assert found["end"] in ("connect_failed", "tls_failed")
    assert found["status"] is None


@pytest.mark.parametrize("browser", BROWSERS)
def test_no_other_roots_are_trusted(tmp_path: Path, browser: str) -> None:
    given = loopback.configuration(tmp_path / "theirs", "quiche")
    make_authority(tmp_path)
    found = loopback.answer(tmp_path, browser, "quiche", given)
    assert found["end"] in ("connect_failed", "tls_failed")


@pytest.mark.parametrize("browser", BROWSERS)
def test_a_request_takes_no_longer_than_it_may(tmp_path: Path, browser: str) -> None:
    """The certificate's delay exceeds the limit, which includes the browser's start.

    Chromium's own limit for an answer is 5 s.
    """
    given = loopback.configuration(tmp_path, "quiche")
    given["endpoints"][0]["delay_us"] = 55_000_000
    started_s = time.monotonic()
    found = loopback.answer(tmp_path, browser, "quiche", given, timeout_s=3)
    assert (found["end"], found["detail"]) == ("timeout", "no response within 3 s")
    assert 3 <= time.monotonic() - started_s < 50


@pytest.mark.parametrize(
    ("change", "networks", "end", "detail"),
    [
        ({}, [], "blocked", "its address is special"),
        ({}, ["allow-net=127.0.1.0/24"], "blocked", "its address is special"),
        ({"ip": "9.9.9.9"}, ["allow-net=127.0.0.0/8"], "blocked", "9.9.9.9 is in no network of allow-net"),
        ({"roots": "/nowhere"}, ["allow-net=127.0.0.0/8"], "failed", "certutil cannot take /nowhere: "),
        ({"http": "1.1"}, ["allow-net=127.0.0.0/8"], "failed", "a browser is asked for a GET by HTTP/3"),
        ({"verify": False}, ["allow-net=127.0.0.0/8"], "failed", "with a certificate that it trusts"),
        ({"host": "a.test, MAP * 127.0.0.3"}, ["allow-net=127.0.0.0/8"], "failed", "is no host name"),
    ],
)
@pytest.mark.parametrize("browser", BROWSERS)
def test_impossible_requests_are_answered(
    browser: str, change: dict[str, Any], networks: list[str], end: str, detail: str
) -> None:
    request = {**REQUEST, **change}
    done = subprocess.run(
        [sys.executable, "-P", "-m", f"testbed.stacks.browsers.{browser}", *networks],
        input=json.dumps(request) + "\n",
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    ready, answer = (json.loads(line) for line in done.stdout.splitlines())
    assert ready["ready"] == f"{browser}/{stacks.find(browser).version.known()}"
    assert answer["end"] == end and detail in answer["detail"]


@pytest.mark.parametrize(
    ("argument", "given", "message"),
    [
        ("nonsense", "", "nonsense: expected blocklist=, optout=, allow-net= or own="),
        ("allow-net=127.0.0.0/8", "no json\n", "'no json' is no request"),
        ("allow-net=127.0.0.0/8", '{"ip": "127.0.0.2"}\n', "is no request"),
        ("allow-net=127.0.0.0/8", json.dumps({**REQUEST, "ip": "nowhere"}) + "\n", "is no request"),
    ],
)
def test_errors_are_one_line(argument: str, given: str, message: str) -> None:
    argv = [sys.executable, "-P", "-m", "testbed.stacks.browsers.chromium", argument]
    done = subprocess.run(argv, input=given, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert done.returncode == 2
    assert message in done.stderr and done.stderr.count("\n") == 1


def test_its_cells_are_not_run_twice_and_cost_more(tmp_path: Path) -> None:
    cells = find("iack-browsers").cells()
    assert len(cells) == 20
    assert compare_runs.sample(cells) == []
    assert list(compare_runs.run_twice("iack-browsers", cells, 1, 1)) == []
    planned = series.plan(tmp_path, "iack-browsers", cells[:1], 3, resume=False)
    assert planned.cpu_s == pytest.approx(estimate.GUEST_CPU_S + 4 * estimate.BROWSER_CPU_S)
    body = cells[0].model_copy(update={"client": "quiche", "body_bytes": 2_000_000})
    planned = series.plan(tmp_path, "x", [body], 3, resume=False)
    trial_cpu_s = estimate.TRIAL_CPU_S + 2 * estimate.BODY_CPU_S
    assert planned.cpu_s == pytest.approx(estimate.GUEST_CPU_S + 4 * trial_cpu_s)


def test_a_missing_program_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for browser in BROWSERS:
        program = stacks.find(browser).client
        assert program is not None
        missing = re.escape(program.programs[0])
        with pytest.raises(UsageError, match=rf"^{missing} is missing: `make setup` installs it$"):
            program.command()
    with pytest.raises(UsageError, match=r"^certutil is missing: install Debian's package libnss3-tools"):
        session.program(session.TRUST)


@pytest.mark.parametrize(
    ("error", "end"),
    [
        ("net::ERR_CERT_AUTHORITY_INVALID", "tls_failed"),
        ("net::ERR_QUIC_PROTOCOL_ERROR", "connect_failed"),
        ("net::ERR_CONNECTION_CLOSED", "reset"),
        ("net::ERR_TIMED_OUT", "timeout"),
        ("net::ERR_SOMETHING_ELSE", "failed"),
    ],
)
def test_errors_of_the_browser_have_an_end(error: str, end: str) -> None:
    found = chromium.of_resource({"success": False, "netErrorName": error})
    assert (found["end"], found["detail"]) == (end, error)


LOADED = {
    "error": None,
    "status": 200,
    "fields": {"X-Firefox-Http3": "h3", "Content-Length": "12"},
    "size": 12,
    "asyncOpen": 1_700_000_000_000_000,
    "connectEnd": 1_700_000_000_010_000,
    "responseStart": 1_700_000_000_020_000,
    "responseEnd": 1_700_000_000_030_000,
}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, ("complete", None, 200, "3", 12)),
        ({"fields": {}}, ("failed", "the browser did not ask by HTTP/3", 200, None, 12)),
        ({"size": 101}, ("limit", None, 200, "3", 101)),
        ({"error": "0x805a1ff3", "status": None, "fields": {}}, ("tls_failed", "0x805a1ff3", None, None, 12)),
        ({"error": "NS_ERROR_NET_RESET"}, ("reset", "NS_ERROR_NET_RESET", 200, "3", 12)),
        ({"error": "NS_ERROR_NET_TIMEOUT"}, ("timeout", "NS_ERROR_NET_TIMEOUT", 200, "3", 12)),
        ({"error": "NS_ERROR_FAILURE"}, ("failed", "NS_ERROR_FAILURE", 200, "3", 12)),
    ],
)
def test_a_report_of_firefox_is_an_answer(change: dict[str, Any], expected: tuple[object, ...]) -> None:
    found = firefox.of_load({**LOADED, **change}, 100)
    assert (found.end, found.detail, found.status, found.http_version, found.body_bytes) == expected
    assert (found.tls_us, found.first_byte_us, found.duration_us) == (10_000, 20_000, 30_000)
    assert found.started_at == 1_700_000_000_000_000_000


def test_missing_events_have_no_time() -> None:
    found = firefox.of_load(
        {**LOADED, "error": "NS_ERROR_NET_TIMEOUT", "connectEnd": 0, "responseStart": 0}, 100
    )
    assert (found.tls_us, found.first_byte_us) == (None, None)


def test_a_response_is_one_whatever_its_status() -> None:
    headers = {"Content-Length": "12", "X-Other": "x", "Server": "s" * 600}
    found = chromium.of_resource({"success": False, "httpStatusCode": 404, "headers": headers})
    assert (found["end"], found["status"], found["content_length"]) == ("complete", 404, 12)
    assert found["headers"] == {"content-length": "12", "server": "s" * 500}


@pytest.mark.parametrize("length", ["9" * 19, "9" * 5000, "-1", "many"])
def test_an_invalid_length_is_none(length: str) -> None:
    assert session.fields({"Content-Length": length})["content_length"] is None


class Reports:
    """A browser that reports a result as it is."""

    def __init__(self, result: dict[str, Any]) -> None:
        self.result = result

    def load(self, _request: Request, _end: float) -> ClientAnswer:
        return ClientAnswer(**chromium.of_resource(self.result["resource"]))

    def close(self) -> None:
        """There is nothing to end."""


@pytest.mark.parametrize(
    "result", [{}, {"resource": {"success": True}}, {"resource": {"httpStatusCode": "x"}}, {"resource": None}]
)
def test_a_result_that_is_none_is_an_answer(tmp_path: Path, result: dict[str, Any]) -> None:
    permitted = shared.permitted(["allow-net=127.0.0.0/8"])
    client = session.BrowserClient(permitted, tmp_path, lambda *_: Reports(result))
    answer = client.answer(Request(**REQUEST))
    assert answer.end == "failed"
    assert answer.detail is not None and "not what its protocol describes" in answer.detail


@pytest.mark.parametrize("browser", BROWSERS)
def test_more_than_the_most_bytes_ends_a_transfer(tmp_path: Path, browser: str) -> None:
    given = loopback.configuration(tmp_path, "quiche", 300_000)
    found = loopback.answer(tmp_path, browser, "quiche", given, max_bytes=1000)
    assert found["end"] == "limit"
    assert 1000 < found["body_bytes"] <= 300_000


def test_a_browser_that_exits_is_reported() -> None:
    browser = devtools.DevTools(["/bin/true"], {"PATH": "/usr/bin:/bin"})
    with pytest.raises(devtools.BrowserClosed, match="the browser is gone"):
        browser.command("Browser.getVersion", time.monotonic() + 60)
    browser.close()
