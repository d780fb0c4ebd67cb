"""Limits per name, page and request in a crawl."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Limits, per name if not stated otherwise. docs/definitions.md (Crawl) lists the defaults."""

    requests: int = 200  # all requests, including robots.txt
    forbidden: int = 1_000  # requests not sent, because robots.txt forbids them
    depth: int = 5  # links from the start page
    seconds: float = 600.0  # for requests; does not count waiting for a turn or for other names' pages
    processor_seconds: float = 20.0  # to parse pages and robots.txt: 200 full pages need six
    received_bytes: int = 20_000_000  # from the network, TLS records and header fields included
    request_seconds: float = 30.0  # per request, from the connection to the last byte
    page_bytes: int = 1_000_000  # to read from a page, or from a file without a length
    smallest: int = 1_000_000  # size of a suitable file in bytes
    largest: int = 10_000_000
    redirects: int = 5  # consecutive redirects (RFC 9309 2.3.1.2)
    references_per_page: int = 5_000  # distinct references; about 60 us each
    files_per_page: int = 40  # files on a page to request
    pages_per_page: int = 100  # links on a page to follow
    url_characters: int = 2_000
    robots_bytes: int = 512_000  # 500 KiB (RFC 9309 2.5)

    def is_suitable(self, size: int) -> bool:
        """Return whether a file of `size` bytes is suitable for downloads."""
        return self.smallest <= size <= self.largest
