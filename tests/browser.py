"""A real browser for tests that look at pages: Debian's Chromium without a window, and its chromedriver.

Left alone, Chromium asks the Internet for updates and accounts as soon as it starts. Here it resolves no name
and whatever is not on this machine's loopback goes to a proxy that does not exist: with these switches
tcpdump saw not one packet leave a namespace with a default route, without them dozens.

A test module takes the fixture by importing it: `from tests.browser import browser as browser`.
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
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

_ARGUMENTS = (
    "--headless=new",
    "--no-sandbox",  # tests may run as root, where the sandbox cannot be made
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
    """What a page did while it was loaded."""

    requests: list[str]
    """Addresses asked for, the page's own first."""
    complaints: list[str]
    """Lines of the console: errors, warnings, violations of the content policy."""


class Browser:
    """One browser with one tab. `driver` is Selenium's, for whatever else a test needs."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def open(self, url: str, size: tuple[int, int] = DESK) -> Visit:
        """Load a page (a file or on loopback) in a window of `size` CSS pixels; a phone's if it is narrow."""
        parts = urlsplit(url)
        assert parts.scheme == "file" or parts.hostname in ("127.0.0.1", "::1", "localhost"), (
            f"{url} is neither a file nor on loopback: tests look at nothing else"
        )
        width, height = size
        self._devtools(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500},
        )
        self.driver.get("about:blank")
        for log in ("performance", "browser"):
            self.driver.get_log(log)  # what came before is not this page's
        self.driver.get(url)
        return Visit(self._requests(), [entry["message"] for entry in self.driver.get_log("browser")])

    def script(self, text: str, *arguments: Any) -> Any:
        """The value that JavaScript `return`s, run from outside the page."""
        return self.driver.execute_script(text, *arguments)

    def pdf(self) -> bytes:
        """The page as printed, in the page size that it asks for."""
        options = {"preferCSSPageSize": True, "printBackground": True}
        return base64.b64decode(self._devtools("Page.printToPDF", options)["data"])

    def screenshot(self) -> bytes:
        """The whole page as PNG."""
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
    """A browser; the caller ends it by `driver.quit()`. Fails if Chromium or its driver is missing."""
    program, driver = (shutil.which(name) for name in ("chromium", "chromedriver"))
    assert program and driver, "chromium or chromedriver is missing: make setup"
    options = Options()
    options.binary_location = program
    for argument in _ARGUMENTS:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    return Browser(webdriver.Chrome(options=options, service=Service(driver)))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser for the tests of one module."""
    started = start()
    try:
        yield started
    finally:
        started.driver.quit()
