"""What one name, one page and one request may take of a crawl."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Bounds per name unless another unit is named; the defaults are those of docs/definitions.md, Crawl."""

    requests: int = 200  # all of them, those for robots.txt too
    forbidden: int = 1_000  # requests that robots.txt forbids, and that are not sent
    depth: int = 5  # links from the start page
    seconds: float = 600.0  # of its own requests: waiting for a turn, or for pages of others, does not count
    processor_seconds: float = 20.0  # to read its pages and robots.txt: 200 full pages take six
    received_bytes: int = 20_000_000  # from the network, TLS records and header fields included
    request_seconds: float = 30.0  # of one request, from the connection to the last byte
    page_bytes: int = 1_000_000  # of a page, or of a file without a length, are read
    smallest: int = 1_000_000  # bytes of a suitable file
    largest: int = 10_000_000
    redirects: int = 5  # consecutive ones (RFC 9309 2.3.1.2)
    references_per_page: int = 5_000  # different ones; each takes some 60 us
    files_per_page: int = 40  # candidates of a page that are asked for
    pages_per_page: int = 100  # links of a page that are followed
    url_characters: int = 2_000
    robots_bytes: int = 512_000  # 500 KiB (RFC 9309 2.5)

    def is_suitable(self, size: int) -> bool:
        """Return whether a file of that many bytes is one to download."""
        return self.smallest <= size <= self.largest
