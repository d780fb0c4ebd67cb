"""The pages of panels over HTTP: contents, filters, failures, and access to the store."""

from __future__ import annotations

import csv
import html
import io
import re
from pathlib import Path

import pytest

from reports import panel, query
from store import open_store
from store.address import served_address
from store.load.record_file import RecordFile
from tests.dashboard.everything import DAY, DOWNLOADS_AT, HOSTILE, RUN, fill
from tests.dashboard.everything import everything as everything
from tests.dashboard.everything import pages as pages
from tests.dashboard.serving import Dashboard, dashboard
from tests.queries.conftest import RUN_2, iack
from tests.queries.conftest import campaign as campaign
from tests.queries.conftest import template as template
from tests.store.rows import write
from tests.waiting import until

RUN_3 = "20261125T070000Z-dddddd"

PAGES = {
    "/": "overview",
    "/cdn/Cloudflare": "cdn",
    "/name/a.example": "name",
    "/vantage/hamburg": "vantage",
    "/watch?since=2026-11-01": "watch",
    "/downloads": "downloads",
    "/handshakes": "handshakes",
}


def section(page: str, name: str) -> str:
    """Return the part of a page with the given panel."""
    return page.partition(f'<section class="panel" id="p-{name}"')[2].partition("</section>")[0]


def rows(part: str) -> list[list[str]]:
    """Return the texts in a table's rows, including headers."""
    return [
        [
            html.unescape(re.sub(r"<[^>]*>", "", cell)).strip()
            for cell in re.findall(r"<t[hd][ >].*?</t[hd]>", row, re.DOTALL)
        ]
        for row in re.findall(r"<tr>(.*?)</tr>", part, re.DOTALL)
    ]


@pytest.mark.parametrize(("path", "page"), PAGES.items(), ids=PAGES.values())
def test_each_page_has_its_panels_with_rows(pages: Dashboard, path: str, page: str) -> None:
    got = pages.get(path)
    assert got.status == 200
    shown = re.findall(r'<section class="panel" id="p-(\w+)"', got.text)
    assert shown == [described.name for described in panel.of_page(page)]
    assert ('<dl class="numbers">' in got.text) == (page == "overview")
    # Only watches have planned times, so the panel of another vantage point may be empty.
    assert [name for name in shown if "<tbody>" not in section(got.text, name)] == []
    assert "Data until <strong>2026-11-2" in got.text


def test_a_point_shows_its_counts_and_links_to_its_rows(pages: Dashboard) -> None:
    part = section(pages.get("/?step=month").text, "share_by_cdn")
    (heads, month) = rows(part)
    shown = dict(zip(heads, month, strict=True))
    assert shown["UTC day"] == "2026-11-01"
    assert (shown["Cloudflare"], shown["Amazon"]) == ("60.0 % of 10", "n/a of 0")
    links = [html.unescape(link) for link in re.findall(r'href="(/queries/[^"]+)"', part)]
    assert [link.partition("?")[0] for link in links] == [
        f"/queries/share_over_time{ending}" for ending in ("", ".csv", ".parquet")
    ]
    found = list(csv.DictReader(io.StringIO(pages.get(links[1]).text)))
    cloudflare = next(row for row in found if row["cdn"] == "Cloudflare")
    assert (cloudflare["counted"], cloudflare["iack_share"]) == ("10", "0.6")
    assert "SELECT" in pages.get(links[0]).text


def test_the_overview_begins_with_the_newest_run(pages: Dashboard) -> None:
    """The page starts with four numbers and Table 1, with any filters."""
    for filters in ("", "?until=2026-11-20&cdn=Amazon"):
        page = pages.get(f"/{filters}").text
        part = page.partition('<dl class="numbers">')[2].partition("</dl>")[0]
        texts = [
            re.sub(r"<[^>]*>", " ", element).split() for element in re.findall(r"<div>(.*?)</div>", part)
        ]
        assert [" ".join(text) for text in texts] == [
            "Names probed 2 from 1 vantage point",
            "Instant ACKs 100.0 % of 2",
            "Median delay 3.00 ms ACK to ServerHello, of 2",
            f"Newest run 2026-11-27 {RUN_2}",
        ]
        assert page.index('id="p-table1"') < page.index("Filters") < page.index('id="p-share_by_cdn"')
        assert rows(section(page, "table1"))[1:] == [["Cloudflare", "100.0 % of 2", "0.0 %", "2", "99.9 %"]]


def test_filters_are_in_the_address(pages: Dashboard) -> None:
    path = "/?vantage=hong_kong&until=2026-11-24&step=month&top="
    page = pages.get(path).text
    assert rows(section(page, "share_by_cdn")) == [["UTC day", "Cloudflare"], ["2026-11-01", "100.0 % of 1"]]
    assert re.search(r"<option selected>hong_kong</option>", page)
    assert 'value="2026-11-24"' in page
    assert "/cdn/Cloudflare?vantage=hong_kong&amp;until=2026-11-24&amp;step=month" in page


def test_a_name_has_commands_and_a_run_its_report(pages: Dashboard) -> None:
    page = pages.get("/name/a.example").text
    command = f"firstflight trace {RUN_2} hamburg a.example 198.18.48.1"
    assert command in html.unescape(page)
    vantage = pages.get("/vantage/hamburg").text
    assert f'<a href="/reports/{RUN}">{RUN}</a>' in vantage
    report = pages.get(f"/reports/{RUN}")
    assert report.status == 200 and "the report" in report.text
    assert "script" not in report.headers["content-security-policy"]
    found = pages.get("/name/?domain=+A.Example.")
    assert (found.status, found.headers["location"]) == (303, "/name/a.example")


def test_names_of_the_store_are_only_text(pages: Dashboard) -> None:
    page = pages.get("/").text
    assert HOSTILE not in page and html.escape(HOSTILE) in page.replace("&#34;", "&quot;").replace(
        "&#39;", "&#x27;"
    )
    link = next(path for path in re.findall(r'href="(/cdn/[^"]+)"', page) if "script" in path)
    got = pages.get(html.unescape(link))
    assert got.status == 200 and HOSTILE not in got.text


@pytest.mark.parametrize(
    ("path", "status", "sentence"),
    [
        ("/cdn/Nosuch", 404, "the store has no probes of the CDN 'Nosuch'"),
        ("/vantage/nosuch", 404, "the store has no probes of the vantage point 'nosuch'"),
        ("/name/nosuch.example", 404, "the store has no probes of the name 'nosuch.example'"),
        ("/name/?domain=", 400, "write a name"),
        ("/reports/20261120T055900Z-aaaaaa", 404, "there is no report of a run"),
        ("/reports/..", 404, "there is no report of a run"),
        ("/?nosuch=1", 400, "this page has no filter 'nosuch'"),
        ("/?cdn=a&cdn=b", 400, "the filter cdn is given twice"),
        ("/?since=2026-02-30", 400, "a date like 2026-11-20 expected"),
        ("/?since=2026-11-20&until=2026-11-19", 400, "since=2026-11-20 is after until=2026-11-19"),
        ("/?top=-1", 400, "a whole number expected"),
        ("/?top=99999999999", 400, "a whole number expected"),
        ("/?step=year", 400, "day or week or month expected"),
        ("/watch?step=week", 400, "hour or day expected"),
        ("/?vantage=" + 300 * "v", 400, "longer than 200 characters"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_failure_is_a_page_with_its_status(pages: Dashboard, path: str, status: int, sentence: str) -> None:
    got = pages.get(path)
    assert got.status == status
    assert sentence in html.unescape(got.text) and got.text.count('role="alert"') == 1


def test_filters_without_rows_are_no_failure(pages: Dashboard) -> None:
    got = pages.get("/?since=2020-01-01&until=2020-12-31")
    assert got.status == 200
    assert got.text.count("The store has no rows for these filters.") == len(panel.of_page("overview")) - 1


def test_probes_that_another_program_inserts_are_shown(campaign: str, tmp_path: Path) -> None:
    url = fill(campaign, tmp_path)
    with dashboard(url) as served:
        before = rows(section(served.get("/").text, "probes_by_vantage"))
        assert before
        path = write(tmp_path / "more" / "quic_probe.parquet", [iack(20_000, 3_000, run=RUN_3, sent_at=DAY)])
        opened = RecordFile(path, {"source_file": "by hand"})
        with open_store(url, write=True) as store:
            for batch in opened.batches():
                store.insert("quic_probe", opened.stored(batch))
            assert query.rows(store, "not_rolled_up") == [
                {"run": RUN_3, "vantage": "hamburg", "repetition": 1}
            ]
        until(
            lambda: rows(section(served.get("/").text, "probes_by_vantage")) != before,
            "the page to count one more probe",
        )


def test_the_store_is_served_to_other_programs_of_the_user(pages: Dashboard, everything: str) -> None:
    """A load or a query connects to the server instead of waiting. Other users cannot read the password."""
    assert pages.get("/").status == 200
    folder = Path(everything.removeprefix("chdb:"))
    assert served_address.path_of(folder).stat().st_mode & 0o777 == 0o600
    with open_store(everything, write=True, wait_s=0) as store:
        assert store.shared
        (row,) = query.rows(store, "newest_load")
    assert row["probes"] == 19
    spans = {kind: (row[f"{kind}_since_ms"], row[f"{kind}_until_ms"]) for kind in ("downloads", "handshakes")}
    assert spans == {"downloads": (DOWNLOADS_AT // 10**6,) * 2, "handshakes": (DAY // 10**6,) * 2}
    assert row["watch_since_ms"] < row["watch_until_ms"]
