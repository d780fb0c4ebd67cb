"""Scrapy's downloader middleware that lets no request pass which robots.txt forbids.

Scrapy's own asks nothing about a host whose robots.txt cannot be had, and fetches all the same; RFC 9309
2.3.1.4 forbids all then. It also resolves, connects and follows redirects by itself.
"""

from __future__ import annotations

import time

from scrapy import Request

from crawler.files import urls
from crawler.files.fetch import Forbidden


class RobotsMiddleware:
    """Checks every request but those for robots.txt, which the name's visit fetches once per host."""

    async def process_request(self, request: Request) -> None:
        """Forbidden if the rules of the request's host do not allow its URL."""
        if request.meta["is_robots"]:
            return
        visit = request.meta["visit"]
        rules = await visit.rules(urls.host_of(request.url))
        begin = time.thread_time()
        is_allowed = rules.allows(request.url)
        # There may be half a megabyte of rules.
        visit.spend(time.thread_time() - begin)
        if not is_allowed:
            raise Forbidden(urls.host_of(request.url))
