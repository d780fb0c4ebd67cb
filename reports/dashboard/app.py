"""The dashboard's application: paths, headers of every answer, error pages, limits per client."""

from __future__ import annotations

import math
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import ip_address

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from reports.dashboard import html, limits
from reports.dashboard.asking.asker import CLIENT, Asker
from reports.dashboard.asking.newest import Watcher
from reports.dashboard.connection.refusal import HEADERS, refusal
from reports.dashboard.connection.sending import Sending
from reports.dashboard.pages import files, queries, run_reports
from reports.dashboard.pages.events import EventStream
from reports.dashboard.pages.filters import address
from reports.dashboard.pages.metrics import Metrics
from reports.dashboard.pages.page_cache import PageCache
from reports.dashboard.pages.panels import Pages

_FRESH_S = 60
# Pages that also exist with a final slash.
_PAGES = ("/watch", "/downloads", "/handshakes", "/queries")
# The framework's message -> our sentence.
_SENTENCES = {
    "Not Found": "there is no such page here: the list of queries links to all pages",
    "Method Not Allowed": "these pages can only be read: use GET",
}


def application(*, public: bool) -> Starlette:
    """Return the application on the store that FIRSTFLIGHT_STORE names.

    `public`: strict limits, shared caches may keep answers, and any host name is served.
    """
    allowances = limits.Allowances() if public else None
    asker = Asker(limits.PUBLIC if public else limits.OWN, allowances=allowances)
    watcher = Watcher(asker)
    events = EventStream(watcher, public=public)
    pages = Pages(asker, watcher, PageCache())

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await asker.close()

    app = Starlette(
        routes=[
            Route("/", pages.overview),
            Route("/cdn/{name:path}", pages.cdn),
            Route("/name/", _find_name),
            Route("/name/{name:path}", pages.name),
            Route("/vantage/{name:path}", pages.vantage),
            Route("/watch", pages.watch),
            Route("/downloads", pages.downloads),
            Route("/handshakes", pages.handshakes),
            Route("/reports/{run}", run_reports.page),
            Route("/queries", queries.index),
            Route("/queries/{name}", queries.page),
            Route("/events", events.page),
            Route("/metrics", Metrics(asker).page),
            *files.routes(),
            *(Route(f"{path}/", _without_slash) for path in _PAGES),
        ],
        exception_handlers={HTTPException: _refused, Exception: _fault},
        lifespan=lifespan,
    )
    # Starlette's redirection would contain the host name from the client's request.
    app.router.redirect_slashes = False
    app.state.asker = asker
    app.state.events = events
    app.add_middleware(_PerClient, allowances=allowances)
    app.add_middleware(_Headers, public=public)
    app.add_middleware(GZipMiddleware, minimum_size=1000, compresslevel=5)
    if allowances is not None:
        app.add_middleware(Sending, rate=allowances.bytes)
    return app


async def _find_name(request: Request) -> Response:
    """`/name/?domain=...`, the form of the overview: redirects to the name's page."""
    domain = request.query_params.get("domain", "").strip().rstrip(".").lower()
    if not domain:
        raise HTTPException(400, "write a name like www.example.com")
    return RedirectResponse(address("/name/", domain), 303)


async def _without_slash(request: Request) -> Response:
    return RedirectResponse(request.url.path.rstrip("/"), 307)


async def _refused(request: Request, error: Exception) -> Response:  # noqa: ARG001
    assert isinstance(error, HTTPException)
    sentence = _SENTENCES.get(error.detail, error.detail)
    return _error_page(error.status_code, sentence, dict(error.headers or {}))


async def _fault(request: Request, error: Exception) -> Response:  # noqa: ARG001
    # The server sends this page outside of the middleware that adds headers.
    return refusal(500, "a fault of firstflight itself: the dashboard's standard error has the details")


def _error_page(status: int, sentence: str, headers: dict[str, str]) -> Response:
    return HTMLResponse(html.render("error.html", status=status, sentence=sentence), status, headers)


class _Headers:
    """Adds headers to every answer. Only in public mode, caches may keep successful answers."""

    def __init__(self, app: ASGIApp, public: bool) -> None:
        self._app = app
        self._kept = f"public, max-age={_FRESH_S}" if public else "no-store"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                own_policy = headers.get("Content-Security-Policy")
                headers.update(HEADERS)
                if own_policy:
                    headers["Content-Security-Policy"] = own_policy
                streamed = headers.get("Content-Type", "").startswith("text/event-stream")
                cacheable = message["status"] == 200 and not streamed
                headers["Cache-Control"] = self._kept if cacheable else "no-store"
                if message["status"] == 503:
                    headers["Retry-After"] = "10"
            await send(message)

        await self._app(scope, receive, with_headers if scope["type"] == "http" else send)


class _PerClient:
    """Limits the requests of each client in public mode.

    Otherwise refuses all host names except localhost: a page elsewhere, with a name that resolves to this
    machine's loopback address, could read the answers.
    """

    def __init__(self, app: ASGIApp, allowances: limits.Allowances | None) -> None:
        self._app = app
        self._rate = allowances.requests if allowances is not None else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            refused = self._refusal(Request(scope))
            if refused is not None:
                await refused(scope, receive, send)
                return
            if self._rate is not None and scope.get("client"):
                CLIENT.set(limits.client_key(scope["client"][0]))
        await self._app(scope, receive, send)

    def _refusal(self, request: Request) -> Response | None:
        if self._rate is None:
            if _of_this_machine(request.headers.get("host", "")):
                return None
            message = "this dashboard is served as localhost only (docs/reference/dashboard.md)"
            return _error_page(421, message, {})
        wait_s = self._rate.wait_s(request.client.host if request.client else "", time.monotonic())
        if not wait_s:
            return None
        return _error_page(
            429, "too many requests: wait a moment and try again", {"Retry-After": str(math.ceil(wait_s))}
        )


def _of_this_machine(host: str) -> bool:
    """Return whether a Host header names an address, or localhost."""
    name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    try:
        ip_address(name)
    except ValueError:
        return name.lower() == "localhost"
    return True
