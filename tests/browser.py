"""A real browser for tests of pages: Debian's headless Chromium and its chromedriver.

By default, Chromium contacts the Internet at its start, for updates and accounts. The switches below disable
name resolution, and send requests for hosts other than loopback to a proxy that does not exist. In a
namespace with a default route, tcpdump captured no outgoing packet with these switches, and dozens without
them.

A test module gets the fixture by an import: `from tests.browser import browser as browser`.
"""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import pytest
from selenium import webdriver
from selenium.common.exceptions import WebDriverException
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.wait import WebDriverWait

from tests.waiting import PATIENCE_S

_ARGUMENTS = (
    "--headless=new",
    "--no-sandbox",  # tests may run as root, where the sandbox is not available
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-domain-reliability",
    "--disable-quic",
    "--disable-sync",
    "--no-pings",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
    "--proxy-server=127.0.0.1:9",
    "--proxy-bypass-list=127.0.0.1;[::1];localhost",
)
PHONE = (390, 844)
DESK = (1280, 900)


@dataclass(frozen=True)
class PageLoad:
    """Requests and console messages during a page's load."""

    requests: list[str]
    """Requested addresses, starting with the page."""
    complaints: list[str]
    """Lines of the console: errors, warnings, violations of the content policy."""


class Browser:
    """A browser with one tab. Tests can use Selenium's `driver` directly."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def open(self, url: str, size: tuple[int, int] = DESK) -> PageLoad:
        """Load a page (a file or on loopback) in a window of `size` CSS pixels; emulate a phone if narrow."""
        parts = urlsplit(url)
        assert parts.scheme == "file" or parts.hostname in ("127.0.0.1", "::1", "localhost"), (
            f"{url} is neither a file nor on loopback: tests open nothing else"
        )
        width, height = size
        self._devtools(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500},
        )
        self.driver.get("about:blank")
        for log in ("performance", "browser"):
            self.driver.get_log(log)  # discard entries of earlier pages
        self.driver.get(url)
        return PageLoad(self._requests(), [entry["message"] for entry in self.driver.get_log("browser")])

    def press(self, selector: str) -> None:
        """Click on a link or button that opens another page, and wait until the page is loaded."""
        self.script("window.left = false")
        self.driver.find_element("css selector", selector).click()
        # Scripts can fail during the change of pages.
        WebDriverWait(self.driver, PATIENCE_S, ignored_exceptions=[WebDriverException]).until(
            lambda _: self.script("return window.left !== false && document.readyState === 'complete'"),
            f"the page after {selector}",
        )

    def script(self, text: str, *arguments: Any) -> Any:
        """Run JavaScript from outside the page and return the `return` value."""
        return self.driver.execute_script(text, *arguments)

    def pdf(self) -> bytes:
        """Return the page as a PDF, in the CSS page size."""
        options = {"preferCSSPageSize": True, "printBackground": True}
        return base64.b64decode(self._devtools("Page.printToPDF", options)["data"])

    def screenshot(self) -> bytes:
        """Return the whole page as PNG."""
        box = self._devtools("Page.getLayoutMetrics", {})["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": box["width"], "height": box["height"], "scale": 1}
        options = {"format": "png", "captureBeyondViewport": True, "clip": clip}
        return base64.b64decode(self._devtools("Page.captureScreenshot", options)["data"])

    def _requests(self) -> list[str]:
        events = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        return [
            event["params"]["request"]["url"]
            for event in events
            if event["method"] == "Network.requestWillBeSent"
        ]

    def _devtools(self, command: str, options: dict[str, Any]) -> dict[str, Any]:
        answer: dict[str, Any] = self.driver.execute_cdp_cmd(command, options)
        return answer


def start() -> Browser:
    """Start a browser; the caller stops it with `driver.quit()`. Fails without Chromium and chromedriver."""
    program, driver = (shutil.which(name) for name in ("chromium", "chromedriver"))
    assert program and driver, "chromium or chromedriver is missing: make setup"
    options = Options()
    options.binary_location = program
    for argument in _ARGUMENTS:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    started = webdriver.Chrome(options=options, service=Service(driver))
    started.set_script_timeout(PATIENCE_S)
    return Browser(started)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser for the tests in a module."""
    started = start()
    try:
        yield started
    finally:
        started.driver.quit()
