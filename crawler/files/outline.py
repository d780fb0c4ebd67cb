"""The crawl stage's part of the dry run."""

from __future__ import annotations

from crawler.files.limits import Limits
from firstflight.run.outline import Known, Outline, download_traffic, limit_words
from firstflight.settings import Settings, Vantage


def outline(settings: Settings, known: Known, vantage: Vantage | None) -> Outline:  # noqa: ARG001
    """Return the number and rate of requests to web sites. The stage runs once per run."""
    crawl, limits = settings.crawl, Limits()
    counts = [count for count in (known.names, crawl.limit) if count is not None]
    limit = f" of at most {min(counts)} names" if counts else ""
    line = (
        f"crawl: the web site of each name{limit}, from the centre; {crawl.max_requests} requests each, "
        f"at most {crawl.rate:g} requests per second, {limit_words(crawl.per_address_rate)} per address"
    )
    if not counts:
        return Outline((line,), sections=("crawl",), known=known)
    requests = min(counts) * crawl.max_requests
    traffic = download_traffic(requests, min(counts) * limits.received_bytes)
    # Names are crawled concurrently, and each name has its own time limit.
    seconds = requests / crawl.rate + limits.seconds
    return Outline((line,), traffic=traffic, seconds=seconds, sections=("crawl",), known=known)
