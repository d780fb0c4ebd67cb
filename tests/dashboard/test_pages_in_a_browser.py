"""The pages in a real Chromium: no errors, charts, tables, keyboard, phone, dark mode, axe-core, weight.

If FIRSTFLIGHT_ARTEFACTS is set, screenshots of all pages are written to this folder.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.browser import DESK, PHONE, Browser
from tests.browser import browser as browser
from tests.dashboard.everything import everything as everything
from tests.dashboard.everything import pages as pages
from tests.dashboard.serving import Dashboard
from tests.dashboard.test_pages import PAGES
from tests.queries.conftest import campaign as campaign
from tests.queries.conftest import template as template

AXE = Path(__file__).parents[1] / "fixtures" / "axe" / "axe.min.js"  # axe-core 4.10.3 from npm
MOST_BYTES = 300_000
ALL = [*PAGES, "/queries", "/queries/share_over_time", "/nosuch"]


def serious(browser: Browser) -> list[Any]:
    """Return the violations on the open page that axe-core rates serious or critical."""
    browser.script(AXE.read_text(encoding="utf-8"))
    found: dict[str, Any] = browser.driver.execute_async_script(
        "const done = arguments[arguments.length - 1];"
        "axe.run(document, {resultTypes: ['violations']}).then(done);"
    )
    return [
        (violation["id"], [node["html"][:120] for node in violation["nodes"]])
        for violation in found["violations"]
        if violation["impact"] in ("serious", "critical")
    ]


def keep(browser: Browser, name: str) -> None:
    """Write a screenshot if FIRSTFLIGHT_ARTEFACTS is set."""
    folder = os.environ.get("FIRSTFLIGHT_ARTEFACTS")
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        (Path(folder) / f"{name}.png").write_bytes(browser.screenshot())


def dark(browser: Browser, *, on: bool) -> None:
    """Enable or disable dark mode."""
    features = [{"name": "prefers-color-scheme", "value": "dark"}] if on else []
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


@pytest.mark.parametrize(
    ("size", "is_dark"), [(DESK, False), (DESK, True), (PHONE, False)], ids=["desk", "dark", "phone"]
)
def test_every_page(
    pages: Dashboard, browser: Browser, size: tuple[int, int], is_dark: bool, request: pytest.FixtureRequest
) -> None:
    dark(browser, on=is_dark)
    try:
        for path in ALL[:2] if is_dark else ALL:
            visit = browser.open(pages.url + path, size)
            complaints = [line for line in visit.complaints if "404 (Not Found)" not in line]
            assert complaints == [], path
            assert all(url.startswith((pages.url, "data:")) for url in visit.requests), visit.requests
            assert browser.script("return document.documentElement.scrollWidth") <= size[0], path
            assert serious(browser) == [], path
            tables, drawn = browser.script(
                "return [document.querySelectorAll('table[data-chart]').length, [...document"
                ".querySelectorAll('.chart')].filter(chart => chart.querySelector('canvas, .dots')).length]"
            )
            assert tables == drawn, path
            name = PAGES.get(path, path.strip("/").replace("/", "-"))
            keep(browser, f"{name}-{request.node.callspec.id}")
    finally:
        dark(browser, on=False)


# Returns for a chart with one period: names, dots and ticks in percent of the width, and the text below.
DOTS = """
const chart = document.getElementById(arguments[0]);
const lefts = kind => [...chart.querySelectorAll(kind)].map(node => parseFloat(node.style.left));
const texts = kind => [...chart.querySelectorAll(kind)].map(node => node.textContent).filter(text => text);
return [texts('.dots-name'), lefts('.dots-dot'), texts('.dots-tick'), lefts('.dots-tick'),
        chart.nextElementSibling.textContent];
"""


def test_one_day_is_a_dot_per_series_on_the_axis_of_that_day(pages: Dashboard, browser: Browser) -> None:
    browser.open(pages.url + "/cdn/Cloudflare?since=2026-11-20&until=2026-11-20")
    keep(browser, "cdn-one-day")
    names, dots, ticks, places, below = browser.script(DOTS, "c-share_by_vantage")
    assert names == ["hamburg", "hong_kong"]
    assert dots == [40, 100]
    assert ticks == ["0 %", "25 %", "50 %", "75 %", "100 %"] and places == [0, 25, 50, 75, 100]
    assert below == "UTC day: 2026-11-20"
    (name,), (median,), ticks, *_ = browser.script(DOTS, "c-delay_band")
    assert (name, ticks[-1]) == ("median", "6 ms")
    assert median == pytest.approx(100 * 4.2 / 6, rel=0.01)


def test_without_script_a_page_is_its_tables(pages: Dashboard, browser: Browser) -> None:
    browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.driver.get(pages.url + "/")
        details = browser.driver.find_elements("css selector", "details")
        assert details and all(element.get_attribute("open") for element in details)
        assert all(
            element.is_displayed() for element in browser.driver.find_elements("css selector", ".panel table")
        )
        assert not any(
            element.is_displayed() for element in browser.driver.find_elements("css selector", ".chart")
        )
    finally:
        browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_the_keyboard_moves_from_point_to_point(pages: Dashboard, browser: Browser) -> None:
    browser.open(pages.url + "/?step=day")
    chart = browser.driver.find_element("id", "c-share_by_cdn")
    readout = browser.driver.find_element("id", "r-share_by_cdn")
    assert readout.text.startswith("2026-11-27: Cloudflare 100.0 % of 2")
    browser.script("arguments[0].focus()", chart)
    for key, day in (("Home", "2026-11-20"), ("ArrowRight", "2026-11-25"), ("End", "2026-11-27")):
        browser.script(
            "arguments[0].dispatchEvent(new KeyboardEvent('keydown', {key: arguments[1], bubbles: true}))",
            chart,
            key,
        )
        assert readout.text.startswith(day)


def test_filters_by_the_form_and_the_weight_of_a_page(pages: Dashboard, browser: Browser) -> None:
    browser.open(pages.url + "/")
    browser.driver.find_element("css selector", "#f-vantage option:nth-child(3)").click()
    browser.press("form[aria-label=Filters] button")
    assert "vantage=hong_kong" in browser.driver.current_url
    weight = browser.script(
        "return performance.getEntries().reduce((sum, entry) => sum + (entry.transferSize || 0), 0)"
    )
    assert 0 < weight < MOST_BYTES
