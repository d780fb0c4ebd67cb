"""Scrapy downloader middleware that blocks requests that robots.txt forbids.

Scrapy's own middleware sends all requests to a host if robots.txt cannot be fetched, although RFC 9309
2.3.1.4 forbids them. It also resolves names, connects and follows redirects by itself.
"""

from __future__ import annotations

import time

from scrapy import Request

from crawler.files.fetching.fetch import Forbidden
from crawler.files.pages import urls


class RobotsMiddleware:
    """Checks all requests except for robots.txt itself, which a name's visit fetches once per host."""

    async def process_request(self, request: Request) -> None:
        """Raise Forbidden if the rules of the request's host do not allow the URL."""
        if request.meta["is_robots"]:
            return
        visit = request.meta["visit"]
        rules = await visit.rules(urls.host_of(request.url))
        begin = time.thread_time()
        is_allowed = rules.allows(request.url)
        # The rules may be half a megabyte long, so this counts as processor time.
        visit.spend(time.thread_time() - begin)
        if not is_allowed:
            raise Forbidden(urls.host_of(request.url))
