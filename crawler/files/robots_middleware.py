"""Scrapy's downloader middleware that lets no request pass which robots.txt forbids.

Scrapy's own asks nothing about a host whose robots.txt cannot be had, and fetches all the same; RFC 9309
2.3.1.4 forbids all then. It also resolves, connects and follows redirects by itself.
"""

from __future__ import annotations

from scrapy import Request

from crawler.files import urls
from crawler.files.fetch import Forbidden


class RobotsMiddleware:
    """Checks every request but those for robots.txt, which the name's visit fetches once per host."""

    async def process_request(self, request: Request) -> None:
        """Forbidden if the rules of the request's host do not allow its URL."""
        if request.meta["is_robots"]:
            return
        rules = await request.meta["visit"].rules(urls.host_of(request.url))
        if not rules.allows(request.url):
            raise Forbidden(urls.host_of(request.url))
