"""`make superset`: Superset in a virtual environment on a served store, and the dashboard in Chromium.

With FIRSTFLIGHT_ARTEFACTS=FOLDER, the screenshot is written there.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests
from selenium.webdriver.common.keys import Keys

from deploy.superset import start
from reports import superset
from store import open_store
from tests.browser import Browser
from tests.browser import browser as browser
from tests.dashboard.everything import everything
from tests.free_port import free_port
from tests.queries.conftest import campaign, template
from tests.waiting import until

__all__ = ["campaign", "everything", "template"]

TREE = Path(__file__).parents[2]
STARTED_S = 600.0  # it migrates a database through all of Superset's versions


@dataclass
class Bench:
    """A running Superset."""

    url: str
    folder: Path
    process: subprocess.Popen[str]

    @property
    def password(self) -> str:
        return (self.folder / "admin_password").read_text().strip()

    def session(self) -> requests.Session:
        """Return a session with the administrator's login."""
        session = requests.Session()
        login = {"username": "admin", "password": self.password, "provider": "db", "refresh": False}
        answer = session.post(f"{self.url}/api/v1/security/login", json=login, timeout=60)
        answer.raise_for_status()
        session.headers["Authorization"] = f"Bearer {answer.json()['access_token']}"
        return session

    def logs(self) -> str:
        """Return the last part of each log file."""
        found = [self.folder / "load.log", self.folder / "superset.log"]
        return "\n".join(path.read_text()[-4000:] for path in found if path.exists())


@pytest.fixture(scope="module")
def bench(everything: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """Start Superset on the store with rows of every kind."""
    assert (start.ENVIRONMENT / "bin" / "gunicorn").exists(), "Superset is not installed: make superset-test"
    folder = tmp_path_factory.mktemp("bench") / "superset"
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "deploy.superset.start", "--folder", str(folder), "--port", str(port)],
        cwd=TREE,
        env={**os.environ, "FIRSTFLIGHT_STORE": everything},
        stderr=subprocess.PIPE,
        text=True,
    )
    started = Bench(f"http://127.0.0.1:{port}", folder, process)
    try:
        until(lambda: answers(started), lambda: f"Superset answers: {started.logs()}", STARTED_S)
        yield started
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=60)
        if process.poll() is None:
            process.kill()
            process.wait()


def answers(bench: Bench) -> bool:
    """Return whether Superset answers; the test fails if the process has exited."""
    if bench.process.poll() is not None:
        assert bench.process.stderr is not None
        raise AssertionError(bench.process.stderr.read() + bench.logs())
    with suppress(requests.ConnectionError):
        return requests.get(f"{bench.url}/health", timeout=60).ok
    return False


def test_assets_are_imported_with_our_comments(bench: Bench) -> None:
    session = bench.session()
    listed = session.get(f"{bench.url}/api/v1/dataset/?q=(page_size:100)", timeout=60).json()["result"]
    assert {dataset["table_name"] for dataset in listed} == set(superset.datasets())
    (probe,) = (dataset for dataset in listed if dataset["table_name"] == "quic_probe")
    found = session.get(f"{bench.url}/api/v1/dataset/{probe['id']}", timeout=60).json()["result"]
    comments = {column["column_name"]: column["description"] for column in found["columns"]}
    expected = {
        column["column_name"]: column["description"] for column in superset.dataset("quic_probe")["columns"]
    }
    assert comments == expected
    charts = session.get(f"{bench.url}/api/v1/chart/?q=(page_size:100)", timeout=60).json()["result"]
    assert {chart["slice_name"] for chart in charts} == {chart.title for chart in superset.CHARTS}


def test_the_password_of_the_store_is_not_in_supersets_database(bench: Bench) -> None:
    address = (bench.folder / "store_url").read_text()
    password = urlsplit(address).password
    assert password and len(password) > 20
    for path in bench.folder.iterdir():
        if path.is_file() and path.name != "store_url":
            assert password.encode() not in path.read_bytes(), path.name
    assert {p.stat().st_mode & 0o077 for p in (bench.folder, bench.folder / "store_url")} == {0}


def test_nothing_is_visible_without_login(bench: Bench) -> None:
    for path in ("/api/v1/dataset/", "/api/v1/chart/", "/superset/dashboard/firstflight/", "/sqllab/"):
        answer = requests.get(bench.url + path, timeout=60, allow_redirects=False)
        assert answer.status_code in (302, 401, 403), path
        if answer.status_code == 302:
            assert "/login" in answer.headers["Location"], path


def test_the_dashboard_in_a_browser(bench: Bench, browser: Browser) -> None:
    browser.open(f"{bench.url}/login/", (1400, 1000))
    fields = until(lambda: form(browser), "the login form")
    fields[0].send_keys("admin")
    fields[1].send_keys(bench.password, Keys.ENTER)
    until(lambda: "/login" not in browser.driver.current_url, "the login")
    browser.open(f"{bench.url}/superset/dashboard/firstflight/", (1400, 1800))
    count = len(superset.CHARTS)
    until(lambda: state(browser)["drawn"] == count, lambda: f"{state(browser)}\n{bench.logs()}", 300)
    shown = state(browser)
    assert shown["faults"] == []
    if folder := os.environ.get("FIRSTFLIGHT_ARTEFACTS"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        (Path(folder) / "superset.png").write_bytes(still(browser))
    with open_store(served(bench)) as store:
        (total,) = store.rows("SELECT sum(probes) AS n FROM probes_by_day")
    assert re.sub(r"\D", "", shown["number"]) == str(total["n"])
    # Superset's tracking pixel is the only request to another host, and the policy blocks it in the browser.
    elsewhere = foreign(browser)
    assert {host for host, stopped in elsewhere if not stopped} == set()
    assert {host for host, _ in elsewhere} <= {"apachesuperset.gateway.scarf.sh"}


def still(browser: Browser) -> bytes:
    """Return a screenshot of the page; charts move while the first ones are taken."""
    return [browser.screenshot() for _ in range(4)][-1]


def foreign(browser: Browser) -> set[tuple[str, bool]]:
    """Return the other hosts that the pages sent requests to, and whether the policy blocked the requests."""
    hosts: dict[str, str] = {}
    stopped = set()
    for entry in browser.driver.get_log("performance"):
        event = json.loads(entry["message"])["message"]
        if event["method"] == "Network.requestWillBeSent":
            url = urlsplit(event["params"]["request"]["url"])
            if url.scheme in ("http", "https") and url.hostname != "127.0.0.1":
                hosts[event["params"]["requestId"]] = str(url.hostname)
        if event["method"] == "Network.loadingFailed" and event["params"].get("blockedReason") == "csp":
            stopped.add(event["params"]["requestId"])
    return {(host, number in stopped) for number, host in hosts.items()}


def form(browser: Browser) -> list[Any]:
    """Return the fields of the login form, name and password; empty until the page is rendered."""
    found = browser.driver.find_elements("css selector", "input#username, input#password")
    return found if len(found) == 2 else []


def state(browser: Browser) -> dict[str, Any]:
    """Return the state of the dashboard: finished charts, errors in them, the big number."""
    found: dict[str, Any] = browser.script(
        """
        const holders = [...document.querySelectorAll('.dashboard-component-chart-holder')];
        const drawn = one => !one.querySelector('.loading')
            && one.querySelector('canvas, table, .header-line');
        return {
            drawn: holders.filter(drawn).length,
            faults: [...document.querySelectorAll('[role=alert]')].map(one => one.innerText).filter(Boolean),
            number: (document.querySelector('.header-line') || {innerText: ''}).innerText,
        };
        """
    )
    return found


def served(bench: Bench) -> str:
    """Return the address of the store that Superset queries, in the form for our client."""
    return (bench.folder / "store_url").read_text().strip().replace("clickhouse+native:", "clickhouse:")


def test_it_ends_in_order_and_starts_again_with_the_same_secrets(bench: Bench, everything: str) -> None:
    kept = {name: (bench.folder / name).read_text() for name in ("secret_key", "admin_password")}
    bench.process.send_signal(signal.SIGINT)
    assert bench.process.wait(timeout=120) == 130
    assert bench.process.stderr is not None
    assert "serving Superset at " in bench.process.stderr.read()
    port = urlsplit(bench.url).port
    again = subprocess.Popen(
        [sys.executable, "-m", "deploy.superset.start", "--folder", str(bench.folder), "--port", str(port)],
        cwd=TREE,
        env={**os.environ, "FIRSTFLIGHT_STORE": everything},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        restarted = Bench(bench.url, bench.folder, again)
        until(lambda: answers(restarted), lambda: f"Superset answers: {restarted.logs()}", STARTED_S)
        assert {name: (bench.folder / name).read_text() for name in kept} == kept
        assert restarted.session().get(f"{bench.url}/api/v1/dashboard/firstflight", timeout=60).ok
    finally:
        again.send_signal(signal.SIGTERM)
        assert again.wait(timeout=120) == 0
