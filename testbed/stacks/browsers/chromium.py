"""Chromium as a client: loads a resource through the DevTools protocol, without rendering.

Run as `python -m testbed.stacks.browsers.chromium`.
"""

from __future__ import annotations

import base64
import os
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from downloader.clients.contract import ClientAnswer, Request
from firstflight.errors import FirstflightError
from testbed.stacks.browsers import session
from testbed.stacks.browsers.devtools import DevTools

PROGRAM = "chromium"
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
# The browser's errors (net/base/net_error_list.h) and the ends they mean; all others are `failed`.
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


class Chromium:
    """A running Chromium."""

    def __init__(self, way: session.Way, home: Path, _end: float) -> None:
        session.make_trust_database(Path(way.roots), home / ".pki/nssdb")
        address = f"[{way.ip}]" if ":" in way.ip else way.ip
        arguments = (
            *_ARGUMENTS,
            f"--user-data-dir={home / 'profile'}",
            "--enable-quic",
            f"--origin-to-force-quic-on={way.host}:{way.port}",
            # No other name resolves. Chromium applies these rules to IP addresses, too.
            f"--host-resolver-rules=MAP {way.host} {address}, MAP * ~NOTFOUND, EXCLUDE {way.ip}",
        )
        argv = [session.program(PROGRAM), *arguments]
        self._tools = DevTools(argv, {**os.environ, "HOME": str(home)})

    def close(self) -> None:
        """Stop the browser."""
        self._tools.close()

    def load(self, request: Request, end: float) -> ClientAnswer:
        """Load a resource in a new browser context, and dispose of the context: see `session.Browser`."""
        tools = self._tools
        context = tools.command("Target.createBrowserContext", end)["browserContextId"]
        try:
            target = tools.command("Target.createTarget", end, url="about:blank", browserContextId=context)
            page = target["targetId"]
            tab = tools.command("Target.attachToTarget", end, targetId=page, flatten=True)["sessionId"]
            tools.command("Network.enable", end, tab)
            tools.command("Network.setUserAgentOverride", end, tab, userAgent=request.user_agent)
            return session.repeated(request, lambda: self._load_once(request, page, tab, end))
        finally:
            # If this fails, the next request still uses a new context.
            with suppress(FirstflightError, TimeoutError):
                tools.command("Target.disposeBrowserContext", end, browserContextId=context)

    def _load_once(self, request: Request, page: str, tab: str, end: float) -> ClientAnswer:
        tools = self._tools
        started_at, started_ns = time.time_ns(), time.monotonic_ns()
        found = tools.command(
            "Network.loadNetworkResource",
            end,
            tab,
            frameId=page,
            url=request.url,
            options={"disableCache": True, "includeCredentials": False},
        )["resource"]
        answer = ClientAnswer(**{**of_resource(found), "started_at": started_at})
        while answer.end == "complete" and (stream := found.get("stream")):
            chunk = tools.command("IO.read", end, tab, handle=stream)
            data = chunk.get("data", "")
            size = len(base64.b64decode(data)) if chunk.get("base64Encoded") else len(data.encode())
            answer = replace(answer, body_bytes=answer.body_bytes + size)
            if answer.body_bytes >= request.max_bytes:
                answer = replace(answer, end="limit")
            if chunk.get("eof"):
                break
        return replace(answer, duration_us=(time.monotonic_ns() - started_ns) // 1000)


def of_resource(found: dict[str, Any]) -> dict[str, Any]:
    """Return the answer's fields from the result of Network.loadNetworkResource."""
    if not found.get("success") and not found.get("httpStatusCode"):
        error = str(found.get("netErrorName"))
        end = "tls_failed" if error.startswith(_CERTIFICATE) else _ENDS.get(error, "failed")
        return {"end": end, "detail": error}
    return {
        "end": "complete",
        "status": int(found["httpStatusCode"]),
        "http_version": "3",
        "tls_verified": True,
        **session.fields(found.get("headers", {})),
    }


def version() -> str:
    """Return the browser's version."""
    return session.printed(PROGRAM, "--product-version") or "unknown"


if __name__ == "__main__":
    session.serve("chromium", version, Chromium, sys.argv[1:])
