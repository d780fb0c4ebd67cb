"""The days that a page shows if its address has no days, and the length of the periods."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, timedelta

import pytest

from reports.dashboard.asking.newest import StoreState
from reports.dashboard.pages import filters
from store.load import loader
from tests.dashboard.everything import DAY
from tests.dashboard.serving import Dashboard, dashboard
from tests.store.rows import download, write

LAST = date(2026, 11, 25)
DAY_NS = 86_400 * 10**9


def ago(days: int) -> date:
    """Return the day `days` days before the last day."""
    return LAST - timedelta(days=days)


@pytest.mark.parametrize(
    ("page", "days", "since", "until", "step"),
    [
        ("downloads", (4, 0), 4, 0, "day"),
        ("downloads", (95, 90), 95, 90, "day"),
        ("downloads", (92, 0), 92, 0, "week"),
        ("handshakes", (91, 0), 91, 0, "day"),
        ("handshakes", (500, 1), 365, 1, "week"),
        ("handshakes", None, 364, 0, "week"),
        ("watch", (30, 8), 14, 8, "hour"),
        ("watch", None, 6, 0, "hour"),
        ("overview", None, 9, 0, "day"),
    ],
)
def test_a_page_shows_the_days_of_what_it_shows(
    page: str, days: tuple[int, int] | None, since: int, until: int, step: str
) -> None:
    """Probes started ten days ago, and the store has newer data."""
    known = {} if days is None else {page: (ago(days[0]), ago(days[1]))}
    newest = StoreState("", None, first_day=ago(9), last_day=LAST, days=known)
    chosen = filters.parsed(page, [], newest).asked
    assert chosen == {"since": str(ago(since)), "until": str(ago(until)), "step": step}


def test_an_empty_store_ends_today() -> None:
    chosen = filters.parsed("overview", [], StoreState("", None)).asked
    assert date.fromisoformat(chosen["until"]) <= filters._today()
    assert chosen["since"] == chosen["until"]


@pytest.fixture(scope="module")
def of_downloads(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dashboard]:
    """The dashboard on a store that only has downloads, on three days."""
    folder = tmp_path_factory.mktemp("downloads")
    rows = [
        download(
            run="20261125T060000Z-cccccc", started_at=DAY + day * DAY_NS, application_goodput_bps=8_000_000
        )
        for day in range(3)
    ]
    url = f"chdb:{folder / 'store'}"
    (loaded,) = loader.load_files([write(folder / "download.parquet", rows, "download")], url)
    assert isinstance(loaded, loader.Loaded), loaded
    with dashboard(url) as server:
        yield server


def test_downloads_alone_have_a_point_a_day(of_downloads: Dashboard) -> None:
    page = of_downloads.get("/downloads")
    assert page.status == 200
    panel = page.text.partition('id="p-downloads_goodput"')[2].partition("</section>")[0]
    assert re.findall(r"<tr>\s*<t[hd][^>]*>\s*(2026-11-\d\d)", panel) == [
        "2026-11-25",
        "2026-11-26",
        "2026-11-27",
    ]
