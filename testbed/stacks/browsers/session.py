"""Shared code of browser clients (downloader/clients/contract.py): load a resource by HTTP/3, headless.

Each request uses a new connection and no session to resume. With several responses, the browser decides
whether later ones use the same connection. A browser can contact only the request's address:
it resolves only the request's name, and its background services are off. Addresses outside the networks of
allow-net are refused anyway, because browsers are meant for namespaces without Internet access. A browser
would follow a redirect to the same host; the testbed's servers send no redirects.
"""

from __future__ import annotations

import ipaddress
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from downloader.clients import shared
from downloader.clients.contract import KEPT_HEADERS, MOST_OF_A_HEADER, ClientAnswer, Request
from firstflight.egress.permitted import Permitted
from firstflight.errors import FirstflightError, UsageError
from firstflight.system import children

TRUST = "certutil"
_PACKAGES = {"chromium": "chromium", "firefox-esr": "firefox-esr", TRUST: "libnss3-tools"}
# Host names that are safe in a browser's resolver rules.
_HOST = re.compile(r"[A-Za-z0-9.-]{1,253}")


@dataclass(frozen=True)
class Way:
    """A browser's only destination: a host at an address, and the trusted roots."""

    host: str
    ip: str
    port: int
    roots: str


class Browser(Protocol):
    """A running browser."""

    def load(self, request: Request, end: float) -> ClientAnswer:
        """Load a resource on a new connection, as often as the request says (`repeated`).

        TimeoutError at `end` (a time of time.monotonic); FirstflightError if the browser fails.
        """

    def close(self) -> None:
        """Stop the browser."""


class BrowserClient:
    """One browser at a time, for the destination of the last request."""

    def __init__(
        self, permitted: Permitted, folder: Path, start: Callable[[Way, Path, float], Browser]
    ) -> None:
        self._permitted = permitted
        self._folder = folder
        self._start = start
        self._browser: Browser | None = None
        self._way: Way | None = None

    def answer(self, request: Request) -> ClientAnswer:
        """Answer a request; failures of the server or the browser do not raise."""
        refused = shared.why_not(self._permitted, request.ip, request.host)
        if refused is None and self._permitted.address_needs_contact(request.ip):
            # A browser may send traffic on its own initiative, so it must not reach other people's networks.
            refused = f"{request.ip} is in no network of allow-net"
        if refused is not None:
            return ClientAnswer("blocked", refused)
        if not _HOST.fullmatch(request.host):
            return ClientAnswer("failed", f"{request.host!r} is no host name")
        if (request.http, request.method, request.verify) != ("3", "GET", True):
            return ClientAnswer(
                "failed", "a browser is asked for a GET by HTTP/3, with a certificate that it trusts"
            )
        end = time.monotonic() + request.timeout_s
        try:
            return self._browser_for(request, end).load(request, end)
        except TimeoutError:
            self.close()
            return ClientAnswer("timeout", f"no response within {request.timeout_s:g} s")
        except FirstflightError as error:
            self.close()
            return ClientAnswer("failed", str(error))
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            self.close()
            return ClientAnswer(
                "failed", f"the browser's result is not what its protocol describes: {error!r}"
            )

    def close(self) -> None:
        """Stop the browser, if one is running."""
        if self._browser is not None:
            self._browser.close()
            self._browser = None

    def _browser_for(self, request: Request, end: float) -> Browser:
        way = Way(request.host, request.ip, request.port, request.roots)
        if self._browser is None or self._way != way:
            self.close()
            home = Path(tempfile.mkdtemp(dir=self._folder))
            self._browser, self._way = self._start(way, home, end), way
        return self._browser


def repeated(request: Request, load: Callable[[], ClientAnswer]) -> ClientAnswer:
    """Load a resource `request.responses` times; pause for `request.think_s` between them.

    Return the first response's answer with the time until the last response ends, or the answer of the first
    incomplete response. `body_bytes` counts all bodies.
    """
    started_ns = time.monotonic_ns()
    answers = [load()]
    while answers[-1].end == "complete" and len(answers) < request.responses:
        time.sleep(request.think_s)
        answers.append(load())
    received = sum(answer.body_bytes for answer in answers)
    if len(answers) == 1 or answers[-1].end != "complete":
        return replace(answers[-1], body_bytes=received)
    return replace(answers[0], body_bytes=received, duration_us=(time.monotonic_ns() - started_ns) // 1000)


def fields(headers: dict[str, str]) -> dict[str, object]:
    """Return the answer's fields from the response's header fields."""
    headers_by_name = {str(name).lower(): str(value) for name, value in headers.items()}
    return {
        "content_length": shared.content_length(headers_by_name),
        "headers": {
            name: headers_by_name[name][:MOST_OF_A_HEADER]
            for name in sorted(KEPT_HEADERS & set(headers_by_name))
        },
    }


def program(name: str) -> str:
    """Return a program's path; UsageError if it is missing."""
    path = shutil.which(name)
    if path is None:
        raise UsageError(f"{name} is missing: install Debian's package {_PACKAGES[name]}")
    return path


def printed(name: str, *arguments: str) -> str:
    """Return a program's output; FirstflightError with its message if it fails."""
    process = children.start([program(name), *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    stdout, stderr = (text.decode(errors="replace").strip() for text in children.wait_for_exit(process))
    if process.returncode:
        raise FirstflightError(stderr)
    return stdout


def make_trust_database(roots: Path, database: Path) -> None:
    """Make a database of certificates (NSS) that trusts a PEM file; FirstflightError if it cannot."""
    database.mkdir(parents=True, exist_ok=True)
    store_name = f"sql:{database}"
    try:
        printed(TRUST, "-N", "-d", store_name, "--empty-password")
        printed(TRUST, "-A", "-d", store_name, "-n", "roots", "-t", "C,,", "-a", "-i", str(roots))
    except FirstflightError as error:
        raise FirstflightError(f"certutil cannot take {roots}: {error}") from error


def serve(
    name: str,
    version: Callable[[], str],
    start: Callable[[Way, Path, float], Browser],
    arguments: Iterable[str],
) -> None:
    """Answer requests until the end of standard input. Arguments as in `shared.permitted`.

    `start` starts a browser for a destination, with its files in a folder, until a time of time.monotonic.
    Exits with status 2 and one sentence if an argument or a line is invalid.
    """
    try:
        permitted = shared.permitted(arguments)
        with tempfile.TemporaryDirectory(prefix=f"firstflight-{name}.") as folder:
            client = BrowserClient(permitted, Path(folder), start)
            shared.say_ready(f"{name}/{version()}")
            try:
                for line in sys.stdin.buffer:
                    shared.say(client.answer(_request(line)))
            finally:
                client.close()
    except FirstflightError as error:
        sys.stderr.write(f"{error}\n")
        raise SystemExit(error.exit_status) from None


def _request(line: bytes) -> Request:
    try:
        request = Request.of(line)
        ipaddress.ip_address(request.ip)
        return request
    except (TypeError, ValueError) as error:
        text = line.decode(errors="replace").strip()
        raise UsageError(f"{text[:80]!r} is no request: give one as contract.py describes it") from error
