"""Builds rows of the record kinds download_file and crawl_page from a crawl's results."""

from __future__ import annotations

from typing import Any

from crawler.files.spider import CrawlResult
from schemas import records

FILE, PAGE = "download_file", "crawl_page"
SOURCE = "crawl"
"""The mark of columns that a result fills (`from: crawl`)."""
# Number of characters to keep from a header field, which is untrusted.
_CHARACTERS = 200
_CACHES = ("cache-status", "x-cache", "cf-cache-status")

CrawlRow = dict[str, Any]
"""A row of download_file or crawl_page, without the columns that all rows of a run share."""


def file_row(result: CrawlResult) -> CrawlRow:
    """Return the columns of download_file that a result fills."""
    file = None if result.visit is None else result.visit.file
    headers = {} if file is None else {name: text[:_CHARACTERS] for name, text in file.headers.items()}
    age = headers.get("age", "")
    return {
        "domain": result.domain,
        "ip": result.address,
        "url": None if file is None else file.url,
        "outcome": result.outcome,
        "reason": result.reason,
        "status": None if file is None else file.status,
        "method": None if file is None else file.method,
        "size": None if file is None else file.size,
        "size_is_lower_bound": file is not None and file.is_lower_bound,
        "content_type": headers.get("content-type"),
        "content_encoding": headers.get("content-encoding"),
        "etag": headers.get("etag"),
        "last_modified": headers.get("last-modified"),
        "cache_control": headers.get("cache-control"),
        "age_s": int(age) if age.isascii() and age.isdigit() and len(age) < 10 else None,
        "cache_status": next((headers[name] for name in _CACHES if name in headers), None),
        "alt_svc": headers.get("alt-svc"),
        "server_header": headers.get("server"),
        "depth": None if file is None else file.depth,
        "found_on": None if file is None else file.found_on,
        "found_at": None if file is None else file.found_at,
        "crawled_at": result.started_at,
    }


def page_row(result: CrawlResult) -> CrawlRow:
    """Return the columns of crawl_page that a result fills."""
    visit, counts = result.visit, result.counts
    return {
        "domain": result.domain,
        "ip": result.address,
        "outcome": result.outcome,
        "robots": None if visit is None else visit.robots_state,
        "requests": counts.requests,
        "pages": counts.pages,
        "files": counts.files,
        "links": counts.links,
        "links_elsewhere": counts.links_elsewhere,
        "links_unusable": counts.links_unusable,
        "links_left_out": counts.links_left_out,
        "forbidden": counts.forbidden,
        "deepest": counts.deepest,
        "bytes_received": 0 if visit is None else visit.wire.received,
        "duration_us": result.duration_us,
        "crawled_at": result.started_at,
    }


def own_columns(kind: str) -> list[str]:
    """Return the names of a kind's columns that a result fills, in order."""
    return [column.name for column in records.load(kind).columns if column.source == SOURCE]
