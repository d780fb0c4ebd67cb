"""The page about a real campaign shows the declared behaviour of the lab's servers."""

from __future__ import annotations

import re
from pathlib import Path
from statistics import median

import pytest

from tests.browser import PHONE, Browser
from tests.browser import browser as browser
from tests.end_to_end.conftest import REPETITIONS, FinishedCampaign
from tests.end_to_end.site import VANTAGES


@pytest.fixture(scope="module")
def page(finished: FinishedCampaign) -> Path:
    """The page of the campaign."""
    folder = finished.site.folder / "report"
    printed = finished.site.firstflight("report", "--out", str(folder), "--run", finished.run)
    assert printed == f"{folder / 'index.html'}\n"
    return folder / "index.html"


def test_table_1_on_the_page_is_as_declared(finished: FinishedCampaign, page: Path, browser: Browser) -> None:
    visit = browser.open(page.as_uri(), PHONE)
    assert (visit.requests, visit.complaints) == ([page.as_uri()], [])
    cells = browser.script(
        "return [...document.querySelectorAll('#table1-paper [data-column]')]"
        ".map(td => [td.closest('tr').dataset.cdn, td.dataset.column, td.textContent])"
    )
    shown = {(cdn, column): text for cdn, column, text in cells}
    declared = finished.site.lines("lab", "truth", "--table1")
    assert {cdn for cdn, _ in shown} == {line["cdn"] for line in declared}
    for line in declared:
        assert shown[line["cdn"], "domains"] == f"{line['domains']:,}"
        for column in ("iack_share_max", "variation"):
            assert shown[line["cdn"], column] == f"{line[column] * 100:.1f}", line


def test_the_median_on_the_page_is_that_of_the_rows(
    finished: FinishedCampaign, page: Path, browser: Browser
) -> None:
    """Uses Cloudflare, because all its names send instant ACKs. test_truth compares rows with the truth."""
    delays_us = [
        row["ack_to_sh_us"]
        for row in finished.rows
        if row["cdn"] == "Cloudflare" and ":" not in row["ip"]
        if row["outcome"] == "iack" and row["attempts"] == 1
    ]
    browser.open(page.as_uri(), PHONE)
    (shown,) = browser.script(
        "return [...document.querySelectorAll('#delay-all-vantages-numbers tr[data-cdn=Cloudflare]')]"
        ".map(tr => tr.querySelector('[data-column=median]').textContent)"
    )
    assert float(shown) == pytest.approx(median(delays_us) / 1000, abs=0.006)


def test_the_page_knows_its_run_and_misses_nothing(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert "All vantage points are complete, in all repetitions." in text
    assert re.search(r"tranco\+crux, [0-9A-Z]{4,6}\+crux:202408:[0-9a-f]{12}, of 2024-08-07", text)
    assert text.count("96.8 %<br>") == len(VANTAGES) * REPETITIONS
