"""Chromium as a client (downloader/clients/contract.py): a resource by HTTP/3, without a window.

Run as `python -m testbed.chromium.client`. Each request has a browser context of its own, so a connection of
its own without a session to resume. Nothing but the request's address can be contacted: the browser resolves
no other name, and its own services are off. Made for namespaces without a way out. A redirect to the same
host would be followed; the testbed's servers send none.
"""

from __future__ import annotations

import base64
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from downloader.clients import shared
from downloader.clients.contract import KEPT_HEADERS, MOST_OF_A_HEADER, Answer, Request
from firstflight.egress.permitted import Permitted
from firstflight.errors import FirstflightError, UsageError
from testbed.chromium.devtools import Browser, BrowserClosed

PROGRAM, TRUST = "chromium", "certutil"
_ARGUMENTS = (
    "--headless=new",
    "--no-sandbox",  # it may run as root
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-domain-reliability",
    "--disable-extensions",
    "--disable-sync",
    "--no-pings",
    "--log-level=3",
)
# Errors of the browser (net/base/net_error_list.h) by the end that they mean; the others are `failed`.
_ENDS = {
    "net::ERR_QUIC_PROTOCOL_ERROR": "connect_failed",
    "net::ERR_QUIC_HANDSHAKE_FAILED": "connect_failed",
    "net::ERR_CONNECTION_REFUSED": "connect_failed",
    "net::ERR_ADDRESS_UNREACHABLE": "connect_failed",
    "net::ERR_TIMED_OUT": "timeout",
    "net::ERR_CONNECTION_TIMED_OUT": "timeout",
    "net::ERR_CONNECTION_CLOSED": "reset",
    "net::ERR_CONNECTION_RESET": "reset",
    "net::ERR_HTTP3_PROTOCOL_ERROR": "reset",
}
_CERTIFICATE = "net::ERR_CERT_"
# What stands in the browser's rules for names.
_HOST = re.compile(r"[A-Za-z0-9.-]{1,253}")


@dataclass(frozen=True)
class _Way:
    """What a browser is started for: one host at one address, and who vouches for it."""

    host: str
    ip: str
    port: int
    roots: str


class Client:
    """One browser at a time, for the way that the last request took."""

    def __init__(self, permitted: Permitted, folder: Path) -> None:
        self._permitted = permitted
        self._folder = folder
        self._browser: Browser | None = None
        self._way: _Way | None = None

    def answer(self, request: Request) -> Answer:
        """Do a request; never raises for what a server or the browser does."""
        refused = shared.why_not(self._permitted, request.ip, request.host)
        if refused is not None:
            return Answer("blocked", refused)
        if not _HOST.fullmatch(request.host):
            return Answer("failed", f"{request.host!r} is no host name")
        if (request.http, request.method, request.verify) != ("3", "GET", True):
            return Answer(
                "failed", "Chromium is asked for a GET by HTTP/3, with a certificate that it trusts"
            )
        end = time.monotonic() + request.timeout_s
        try:
            return self._visit(self._browser_for(request), request, end)
        except TimeoutError:
            self.close()
            return Answer("timeout", f"no response within {request.timeout_s:g} s")
        except FirstflightError as error:
            self.close()
            return Answer("failed", str(error))

    def close(self) -> None:
        """End the browser, if there is one."""
        if self._browser is not None:
            self._browser.close()
            self._browser = None

    def _browser_for(self, request: Request) -> Browser:
        way = _Way(request.host, request.ip, request.port, request.roots)
        if self._browser is None or self._way != way:
            self.close()
            self._browser, self._way = start(way, self._folder), way
        return self._browser

    def _visit(self, browser: Browser, request: Request, end: float) -> Answer:
        """Load a resource as the browser's tools do: nothing is drawn, and nothing else loaded."""
        context = browser.command("Target.createBrowserContext")["browserContextId"]
        try:
            made = browser.command("Target.createTarget", url="about:blank", browserContextId=context)
            page = made["targetId"]
            session = browser.command("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
            browser.command("Network.enable", session)
            browser.command("Network.setUserAgentOverride", session, userAgent=request.user_agent)
            started_at, begun = time.time_ns(), time.monotonic_ns()
            found = browser.command(
                "Network.loadNetworkResource",
                session,
                end,
                frameId=page,
                url=request.url,
                options={"disableCache": True, "includeCredentials": False},
            )["resource"]
            answer = Answer(**{**of_resource(found), "started_at": started_at})
            while answer.end == "complete" and (stream := found.get("stream")):
                chunk = browser.command("IO.read", session, end, handle=stream)
                data = chunk.get("data", "")
                size = len(base64.b64decode(data)) if chunk.get("base64Encoded") else len(data.encode())
                answer = replace(answer, body_bytes=answer.body_bytes + size)
                if answer.body_bytes > request.max_bytes:
                    answer = replace(answer, end="limit")
                if chunk.get("eof"):
                    break
            return replace(answer, duration_us=(time.monotonic_ns() - begun) // 1000)
        finally:
            with suppress(BrowserClosed):
                browser.command("Target.disposeBrowserContext", browserContextId=context)


def of_resource(found: dict[str, Any]) -> dict[str, Any]:
    """Return what the result of Network.loadNetworkResource says of an answer."""
    if not found.get("success") and not found.get("httpStatusCode"):
        error = str(found.get("netErrorName"))
        end = "tls_failed" if error.startswith(_CERTIFICATE) else _ENDS.get(error, "failed")
        return {"end": end, "detail": error}
    fields = {str(name).lower(): str(value) for name, value in found.get("headers", {}).items()}
    length = fields.get("content-length", "")
    return {
        "end": "complete",
        "status": int(found["httpStatusCode"]),
        "http_version": "3",
        "tls_verified": True,
        "content_length": int(length) if length.isdecimal() else None,
        "headers": {name: fields[name][:MOST_OF_A_HEADER] for name in sorted(KEPT_HEADERS & set(fields))},
    }


def start(way: _Way, folder: Path) -> Browser:
    """Start a browser for one way, with its files in `folder`. UsageError if a program is missing."""
    home = Path(tempfile.mkdtemp(prefix="chromium.", dir=folder))
    _trust(Path(way.roots), home / ".pki/nssdb")
    address = f"[{way.ip}]" if ":" in way.ip else way.ip
    arguments = (
        *_ARGUMENTS,
        f"--user-data-dir={home / 'profile'}",
        "--enable-quic",
        f"--origin-to-force-quic-on={way.host}:{way.port}",
        # No other name is one, and an address is taken for a name here, too.
        f"--host-resolver-rules=MAP {way.host} {address}, MAP * ~NOTFOUND, EXCLUDE {way.ip}",
    )
    environment = {**os.environ, "HOME": str(home)}
    return Browser([program(PROGRAM), *arguments], environment)


def program(name: str) -> str:
    """Return the path of a program; UsageError if it is missing."""
    found = shutil.which(name)
    if found is None:
        packages = {PROGRAM: "chromium", TRUST: "libnss3-tools"}
        raise UsageError(
            f"{name} is missing: install Debian's package {packages[name]}, or leave Chromium out"
        )
    return found


def _trust(roots: Path, database: Path) -> None:
    """Make a database of certificates that trusts those of a PEM file, where the browser looks for it."""
    database.mkdir(parents=True)
    tool, where = program(TRUST), f"sql:{database}"
    for argv in (
        [tool, "-N", "-d", where, "--empty-password"],
        [tool, "-A", "-d", where, "-n", "roots", "-t", "C,,", "-a", "-i", str(roots)],
    ):
        done = subprocess.run(argv, capture_output=True, check=False)
        if done.returncode:
            raise FirstflightError(
                f"certutil cannot take {roots}: {done.stderr.decode(errors='replace').strip()}"
            )


def version() -> str:
    """Return the browser's version."""
    done = subprocess.run([program(PROGRAM), "--product-version"], capture_output=True, check=False)
    return done.stdout.decode(errors="replace").strip() or "unknown"


def _request(line: bytes) -> Request:
    try:
        return Request.of(line)
    except (TypeError, ValueError) as error:
        text = line.decode(errors="replace").strip()
        raise UsageError(f"{text[:80]!r} is no request: give one as contract.py describes it") from error


def main(arguments: Iterable[str]) -> None:
    """Answer requests until the end of standard input. Arguments as of `shared.permitted`.

    UsageError for an argument or a line that is wrong.
    """
    permitted = shared.permitted(arguments)
    with tempfile.TemporaryDirectory(prefix="firstflight-chromium.") as folder:
        client = Client(permitted, Path(folder))
        shared.say_ready(f"chromium/{version()}")
        try:
            for line in sys.stdin.buffer:
                shared.say(client.answer(_request(line)))
        finally:
            client.close()


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except FirstflightError as error:
        sys.stderr.write(f"{error}\n")
        raise SystemExit(error.exit_status) from None
