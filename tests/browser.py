"""A real browser for tests of pages: Debian's headless Chromium and its chromedriver.

By default Chromium contacts the Internet for updates and accounts at its start. Here it resolves no name, and
requests to other hosts than this machine's loopback go to a proxy that does not exist: with these switches
tcpdump captured no packet leaving a namespace with a default route, without them dozens.

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
class Visit:
    """Requests and console messages of a page while it was loaded."""

    requests: list[str]
    """Requested addresses, the page's own first."""
    complaints: list[str]
    """Lines of the console: errors, warnings, violations of the content policy."""


class Browser:
    """One browser with one tab. `driver` is Selenium's, for other needs of a test."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def open(self, url: str, size: tuple[int, int] = DESK) -> Visit:
        """Load a page (a file or on loopback) in a window of `size` CSS pixels; a phone's if it is narrow."""
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
            self.driver.get_log(log)  # earlier entries are not this page's
        self.driver.get(url)
        return Visit(self._requests(), [entry["message"] for entry in self.driver.get_log("browser")])

    def press(self, selector: str) -> None:
        """Click on what leads to another page, and wait until it is loaded: a click alone may not."""
        self.script("window.left = false")
        self.driver.find_element("css selector", selector).click()
        # While one page replaces the other, a script may find neither.
        WebDriverWait(self.driver, PATIENCE_S, ignored_exceptions=[WebDriverException]).until(
            lambda _: self.script("return window.left !== false && document.readyState === 'complete'"),
            f"the page after {selector}",
        )

    def script(self, text: str, *arguments: Any) -> Any:
        """Run JavaScript from outside the page and return its `return` value."""
        return self.driver.execute_script(text, *arguments)

    def pdf(self) -> bytes:
        """Return the page as a PDF, in its own page size."""
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
    """Start a browser; the caller ends it by `driver.quit()`. Fails if Chromium or its driver is missing."""
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
    """A browser for the tests of one module."""
    started = start()
    try:
        yield started
    finally:
        started.driver.quit()
