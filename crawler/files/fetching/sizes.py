"""Finds a file's size with the cheapest possible request: HEAD, one byte, or the first megabyte."""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from crawler.files.fetching import coding
from crawler.files.fetching.fetch import Asked, HttpResponse, is_html
from crawler.files.limits import Limits

Follow = Callable[[Asked], Awaitable[tuple[str, HttpResponse]]]
"""Sends a request and follows redirects. Returns the last URL and the answer."""
Method = Literal["head", "range", "get"]
_CONTENT_RANGE = re.compile(r"bytes 0-0/(\d{1,18})", re.ASCII)
# Status codes with which a server refuses HEAD, but may still answer GET (RFC 9110 15.5.6, 15.6.2).
_NO_HEAD = (405, 501)


@dataclass(frozen=True)
class File:
    """A file's properties. `size` is in bytes, `None` if unknown.

    `is_lower_bound`: the body was not read to the end. `found_at`: in ns since 1970 (UTC).
    """

    url: str
    status: int
    method: Method
    size: int | None
    is_lower_bound: bool
    depth: int
    found_on: str | None
    headers: dict[str, str] = field(repr=False)
    found_at: int = field(default_factory=time.time_ns)


def is_read(headers: Any) -> bool:
    """Return, from Scrapy's header fields, whether to read a body for its links."""
    kind = headers.get(b"Content-Type", b"").decode("latin-1")
    return is_html(kind) and coding.is_read(headers.get(b"Content-Encoding", b"").decode("latin-1"))


def of_page(url: str, answer: HttpResponse, depth: int, found_on: str | None) -> File:
    """Return the file that a GET of a page describes, with the size."""
    size, is_lower = answer.length, False
    if size is None and answer.is_page:
        size, is_lower = len(answer.body), answer.is_cut or not answer.is_whole
    return File(url, answer.status, "get", size, is_lower, depth, found_on, answer.headers)


async def ask(
    follow: Follow, limits: Limits, url: str, depth: int, found_on: str | None, *, head: bool = True
) -> File | None:
    """Return the file at `url` after redirects; `None` if the status is neither 200 nor 206.

    Sends no more requests than necessary. Exceptions from `follow` pass through.
    """
    if head:
        url, answer = await follow(Asked(url, "HEAD"))
        if answer.status == 200 and answer.length is not None:
            return File(url, 200, "head", answer.length, False, depth, found_on, answer.headers)
        if answer.status not in (200, *_NO_HEAD):
            return None
    url, answer = await follow(Asked(url, headers={"Range": "bytes=0-0"}, keep=1))
    if answer.status not in (200, 206):
        return None
    content_range = _CONTENT_RANGE.fullmatch(answer.headers.get("content-range", "").strip())
    if answer.status == 206 and content_range is not None:
        return File(url, 206, "range", int(content_range[1]), False, depth, found_on, answer.headers)
    if answer.status == 200 and answer.length is not None:
        return File(url, 200, "range", answer.length, False, depth, found_on, answer.headers)
    url, answer = await follow(Asked(url, keep=limits.page_bytes))
    if answer.status != 200:
        return None
    size, is_lower = len(answer.body), answer.is_cut or not answer.is_whole
    if is_lower and size < limits.smallest:
        return File(url, 200, "get", None, False, depth, found_on, answer.headers)
    return File(url, 200, "get", size, is_lower, depth, found_on, answer.headers)
