"""Scrapy's handler of https requests. It uses the connections of the request's name (`wire.Wire`)."""

from __future__ import annotations

from typing import Any, cast

from scrapy import Request, signals
from scrapy.core.downloader.handlers.http11 import (
    HTTP11DownloadHandler,
    _LenientHTTP11ClientFactory,
    _ScrapyAgent,
)
from scrapy.crawler import Crawler
from scrapy.exceptions import StopDownload
from scrapy.http import Headers, Response
from scrapy.utils.defer import maybe_deferred_to_future
from twisted.web.client import Agent
from twisted.web.iweb import UNKNOWN_LENGTH

from crawler.files.fetching.pace import Pace
from crawler.files.fetching.trust import roots
from crawler.files.fetching.wire import Endpoints, Wire
from crawler.files.pages import urls

HEADER_BYTES = 262_144
"""The limit of received bytes outside of the body: header fields, TLS handshake and records."""


class Handler(HTTP11DownloadHandler):
    """Sends requests over `meta["wire"]`, when `meta["pace"]` permits. Keeps `meta["keep"]` body bytes."""

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._roots = roots(crawler.settings["FIRSTFLIGHT_ROOTS"])
        crawler.signals.connect(_headers_received, signals.headers_received)
        crawler.signals.connect(_bytes_received, signals.bytes_received)

    async def download_request(self, request: Request) -> Response:
        """Return the response, with a body truncated at `keep`. Raise exceptions of Scrapy and Twisted."""
        wire: Wire = request.meta["wire"]
        pace: Pace = request.meta["pace"]
        request.meta["visit"].extend(await pace.turn(wire.address))
        wire.check(urls.host_of(request.url))  # no other check covers a request over an open connection
        wire.allow(cast(int, request.meta["keep"]) + HEADER_BYTES)
        agent = _PinnedAgent(
            contextFactory=self._contextFactory,
            crawler=self._crawler,
            fail_on_dataloss=False,
        )
        agent.wire, agent.roots = wire, self._roots
        return await maybe_deferred_to_future(agent.download_request(request))


class _PinnedAgent(_ScrapyAgent):
    wire: Wire
    roots: Any

    def _get_agent(self, request: Request, timeout: float) -> Agent:  # noqa: ARG002
        from twisted.internet import reactor

        pool = self.wire.new_pool(reactor)
        pool._factory = _LenientHTTP11ClientFactory
        endpoints = Endpoints(reactor, self.wire, self.roots)
        return cast(Agent, Agent.usingEndpointFactory(reactor, endpoints, pool))

    @staticmethod
    def _headers_from_twisted_response(response: Any) -> Headers:
        """Return the header fields. For HEAD, Twisted's length is always 0, so use only the field itself."""
        headers = Headers()
        if response.length != UNKNOWN_LENGTH and response.request.method != b"HEAD":
            headers[b"Content-Length"] = str(response.length).encode()
        headers.update(response.headers.getAllRawHeaders())
        return headers


def _headers_received(headers: Any, request: Request, **_: Any) -> None:
    """Stop after the header section, if nothing reads the body."""
    reads = request.meta.get("reads")
    if request.method != "HEAD" and reads is not None and not reads(headers):
        raise StopDownload(fail=False)


def _bytes_received(data: bytes, request: Request, **_: Any) -> None:
    """Stop when the body has `keep` bytes."""
    request.meta["kept"] = request.meta.get("kept", 0) + len(data)
    if request.meta["kept"] >= request.meta["keep"]:
        request.meta["is_cut"] = True
        raise StopDownload(fail=False)
