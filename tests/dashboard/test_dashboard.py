"""The dashboard as a process: pages, files, failures, headers, signals."""

from __future__ import annotations

import html
import io
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.csv
import pyarrow.parquet
import pytest

from reports import query
from reports.dashboard.connection.refusal import HEADERS
from store import open_store
from tests.browser import DESK, PHONE, Browser
from tests.browser import browser as browser
from tests.dashboard.serving import Dashboard, dashboard
from tests.queries.conftest import campaign as campaign
from tests.queries.conftest import template as template
from tests.store.served.serving import FIRSTFLIGHT
from tests.store.served.test_access import certificate as certificate
from tests.waiting import PATIENCE_S

HOSTILE = "\"><script>document.title='caught'</script>"


@pytest.fixture(scope="module")
def served(campaign: str) -> Iterator[Dashboard]:
    """The dashboard on the campaign's store."""
    with dashboard(campaign) as server:
        yield server


def cells(page: str) -> list[list[str]]:
    """Return the texts of the answer's cells, by row."""
    body = page.partition("<tbody>")[2].partition("</tbody>")[0]
    return [
        [html.unescape(cell) for cell in re.findall(r"<td[^>]*>(.*?)</td>", row)]
        for row in re.findall(r"<tr>(.*?)</tr>", body)
    ]


def expected(campaign: str, name: str, **given: str) -> list[dict[str, Any]]:
    """Return the same answer from the library."""
    with open_store(campaign) as store:
        return query.rows(store, name, given)


def test_the_list_leads_to_every_query(served: Dashboard) -> None:
    page = served.get("/queries")
    assert page.status == 200
    assert re.findall(r'<dt><a href="/queries/(\w+)">', page.text) == query.names()
    assert html.escape(query.load("iack_share").answers) in page.text


def test_page_and_files_have_the_answer_to_the_address(served: Dashboard, campaign: str) -> None:
    wanted = expected(campaign, "iack_share", cdn="Others", all_addresses="true")
    assert wanted and wanted != expected(campaign, "iack_share")
    path, parameters = "/queries/iack_share", "?cdn=Others&all_addresses=true&since="
    page = served.get(path + parameters)
    assert page.status == 200
    shown = cells(page.text)
    assert [row[:3] for row in shown] == [
        [expected_row["day"], expected_row["cdn"], expected_row["vantage"]] for expected_row in wanted
    ]
    assert [row[5] for row in shown] == [str(expected_row["probes"]) for expected_row in wanted]
    assert f">{len(wanted)} row" in page.text
    assert "cdn = &#39;Others&#39;" in page.text  # its SQL
    assert 'value="Others"' in page.text  # its form
    links = re.findall(r'href="([^"]+\.(?:csv|parquet)\?[^"]*)"', page.text)
    assert len(links) == 2
    for link in links:
        got = served.get(html.unescape(link))
        assert got.status == 200 and got.headers["content-disposition"].startswith("attachment; ")
        read = pyarrow.csv.read_csv if ".csv" in link else pyarrow.parquet.read_table
        table = read(io.BytesIO(got.body))
        assert table.column_names == list(query.load("iack_share").columns)
        assert table["probes"].to_pylist() == [expected_row["probes"] for expected_row in wanted]


def test_a_query_that_needs_a_value_is_an_empty_form_first(served: Dashboard) -> None:
    name = next(
        query_name
        for query_name in query.names()
        if any(p.default is None for p in query.load(query_name).parameters)
    )
    page = served.get(f"/queries/{name}")
    assert page.status == 200 and " required" in page.text and "<h2>Answer" not in page.text
    refused = served.get(f"/queries/{name}.csv")
    assert refused.status == 400 and "needs --param" in refused.text


@pytest.mark.parametrize(
    ("path", "status", "sentence"),
    [
        ("/nosuch", 404, "there is no such page here"),
        ("/queries/nosuch", 404, "there is no query 'nosuch'"),
        ("/queries/parameters", 404, "there is no query 'parameters'"),
        ("/queries/..%2f..%2fparameters", 404, "there is no such page"),
        ("/queries/iack_share?nosuch=1", 400, "has no parameter 'nosuch'"),
        ("/queries/iack_share?since=2026-13-01", 400, "a date like 2026-11-20 expected"),
        ("/queries/iack_share.csv?since=2026-13-01", 400, "a date like 2026-11-20 expected"),
        ("/queries/iack_share?cdn=a&cdn=b", 400, "the parameter cdn is given twice"),
        ("/queries/amplification_names?limit=-1", 400, "a whole number expected"),
        ("/queries/iack_share?all_addresses=maybe", 400, "true or false expected"),
    ],
)
def test_a_failure_is_a_page_with_its_status(
    served: Dashboard, path: str, status: int, sentence: str
) -> None:
    got = served.get(path)
    assert got.status == status
    assert got.headers["content-type"].startswith("text/html")
    assert sentence in html.unescape(got.text) and 'role="alert"' in got.text


def test_every_answer_permits_no_external_content(served: Dashboard) -> None:
    answers = [
        served.get(path) for path in ("/queries", "/nosuch", "/dashboard.css", "/queries/iack_share?x=1")
    ]
    answers.append(served.get("/queries", {"Host": "rebound.example"}))
    answers.append(served.get("/queries", method="POST"))
    assert [answer.status for answer in answers] == [200, 404, 200, 400, 421, 405]
    for got in answers:
        assert {key: got.headers.get(key.lower()) for key in HEADERS} == HEADERS
        assert got.headers["cache-control"] == "no-store"
        assert "server" not in got.headers
    policy = HEADERS["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; ")
    assert not any(word in policy for word in ("unsafe", "http", "*", "data: ;"))


@pytest.mark.parametrize(
    ("host", "status"),
    [("localhost:80", 200), ("LOCALHOST", 200), ("[::1]:8", 200), ("127.0.0.2", 200), ("a.localhost", 421)],
)
def test_only_this_machine_is_served_by_name(served: Dashboard, host: str, status: int) -> None:
    assert served.get("/dashboard.css", {"Host": host}).status == status


def test_text_of_an_address_is_only_text(served: Dashboard, browser: Browser) -> None:
    path = "/queries/iack_share?cdn=%22%3E%3Cscript%3Edocument.title%3D%27caught%27%3C%2Fscript%3E"
    assert HOSTILE not in served.get(path).text
    visit = browser.open(served.url + path)
    assert visit.complaints == []
    assert browser.driver.title == "iack_share - firstflight"
    field = browser.driver.find_element("id", "p-cdn")
    assert field.get_attribute("value") == HOSTILE


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_pages_in_a_browser(served: Dashboard, browser: Browser, size: tuple[int, int]) -> None:
    for path in ("/queries", "/queries/iack_share", "/queries/nosuch"):
        visit = browser.open(served.url + path, size)
        complaints = [line for line in visit.complaints if "404 (Not Found)" not in line]
        assert complaints == []
        assert all(url.startswith((served.url, "data:")) for url in visit.requests), visit.requests
        assert browser.script("return document.documentElement.scrollWidth") <= size[0]
        unlabelled = browser.script(
            "return [...document.querySelectorAll('input,select')].filter(node => !node.labels.length).length"
        )
        assert unlabelled == 0


def test_the_form_sets_the_address(served: Dashboard, browser: Browser, campaign: str) -> None:
    browser.open(f"{served.url}/queries/iack_share")
    browser.driver.find_element("id", "p-cdn").send_keys("Others")
    browser.press("form button")
    assert "cdn=Others" in browser.driver.current_url
    rows = browser.driver.find_elements("css selector", ".scroll tbody tr")
    assert len(rows) == len(expected(campaign, "iack_share", cdn="Others")) > 0


def test_an_unavailable_store_is_a_page(tmp_path: Path) -> None:
    with dashboard(f"chdb:{tmp_path / 'none'}") as server:
        got = server.get("/queries/iack_share")
        assert got.status == 503 and "firstflight db migrate" in got.text
        assert "retry-after" in got.headers
        assert not (tmp_path / "none").exists()
        with open_store(f"chdb:{tmp_path / 'none'}", write=True):
            locked = server.get("/queries/iack_share.csv")
        assert locked.status == 503 and "is in use by process" in locked.text
        old = server.get("/queries/iack_share")  # a database without tables
        assert old.status == 503 and "bring it up to date with `firstflight db migrate`" in old.text
        assert server.get("/queries").status == 200
    with dashboard("clickhouse://default@127.0.0.1:1/firstflight") as server:
        got = server.get("/queries/iack_share")
        assert got.status == 503 and "127.0.0.1:1" in got.text


def test_public_mode_limits_each_client(campaign: str, certificate: tuple[Path, Path]) -> None:
    chain, key = map(str, certificate)
    options = ("--host", "0.0.0.0", "--public", "--certificate", chain, "--key", key)
    with dashboard(campaign, *options) as server:
        first = server.get("/queries", {"Host": "any.example"}, ca=chain)
        assert (first.status, first.headers["cache-control"]) == (200, "public, max-age=60")
        assert server.url.startswith("https://")
        # This exceeds the burst plus the refill during the requests.
        answers = [server.get("/dashboard.css", ca=chain) for _ in range(200)]
        refused = [got for got in answers if got.status == 429]
        assert refused and {got.status for got in answers} == {200, 429}
        assert int(refused[0].headers["retry-after"]) >= 1
        assert refused[0].headers["cache-control"] == "no-store"
        # A proxy on this machine passes the address of the client.
        assert server.get("/dashboard.css", {"X-Forwarded-For": "192.0.2.9"}, ca=chain).status == 200


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--host", "0.0.0.0"], "others can reach 0.0.0.0: add --public"),
        (["--key", "key.pem"], "TLS needs both --certificate and --key"),
        (["--certificate", "no.pem", "--key", "no.pem"], "cannot use the certificate no.pem"),
        (["--host", "192.0.2.77", "--public"], "cannot listen on 192.0.2.77 port 8000: "),
    ],
)
def test_wrong_use_is_one_sentence(arguments: list[str], sentence: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [FIRSTFLIGHT, "dashboard", *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 2
    assert done.stderr.startswith(f"firstflight: {sentence}") and done.stderr.count("\n") == 1


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_signals_end_it_in_order(campaign: str, number: signal.Signals, status: int) -> None:
    with dashboard(campaign) as server:
        assert server.get("/dashboard.css").status == 200
        server.process.send_signal(number)
        assert server.process.wait(timeout=PATIENCE_S) == status
        assert server.process.stderr is not None
        assert server.process.stderr.read().count("\n") == 1


def test_the_server_itself_never_loads_the_engine() -> None:
    code = "import sys, reports.dashboard.serve; sys.exit('chdb' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
