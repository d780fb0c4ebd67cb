"""One request and its answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from crawler.files.fetching import coding
from firstflight.system import from_outside


class Fault(Exception):
    """A request without an answer. The message is the reason."""


class Forbidden(Exception):
    """A host's robots.txt forbids the request, which was not sent. The message is the host."""


class Blocked(Exception):
    """A list or a rule forbids a request to `address`, which was not sent. The message is the reason."""

    def __init__(self, why: str, address: str | None = None) -> None:
        super().__init__(why)
        self.address = address


class Stopped(Exception):
    """The crawl must stop and send no more requests."""


@dataclass
class HttpResponse:
    """The answer to a request. `headers`: the first value of each field, names in lower case.

    `body` may be truncated (`is_cut`). `is_whole`: the body is as long as the Content-Length, the chunks or
    the end of the connection indicate.
    """

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    is_cut: bool = False
    is_whole: bool = True

    @property
    def length(self) -> int | None:
        """The Content-Length; `None` if absent or not a number."""
        return from_outside.content_length(self.headers.get("content-length", ""))

    @property
    def coding(self) -> str:
        """The content coding, although we accept none; empty if there is no coding."""
        return coding.name_of(self.headers.get("content-encoding", ""))

    @property
    def is_page(self) -> bool:
        """Whether the body is HTML in a content coding that can be decoded."""
        return coding.is_read(self.coding) and is_html(self.headers.get("content-type", ""))

    def content(self, max_bytes: int) -> bytes | None:
        """Return at most `max_bytes` of the decoded body; `None` if it cannot be decoded."""
        return coding.decoded(self.body, self.coding, max_bytes)

    @property
    def is_redirect(self) -> bool:
        """Whether the answer is a redirect (RFC 9110 15.4)."""
        return self.status in (301, 302, 303, 307, 308)


@dataclass(frozen=True)
class Asked:
    """A request. Keeps at most `keep` bytes of the body. `reads` decides by the header whether to read it."""

    url: str
    method: str = "GET"
    headers: dict[str, str] = field(default_factory=dict)
    keep: int = 0
    reads: Callable[[Any], bool] | None = None
    is_robots: bool = False
    timeout_s: float = 30.0


def is_html(content_type: str) -> bool:
    """Return whether a Content-Type means HTML. A missing Content-Type may mean HTML."""
    kind = content_type.partition(";")[0].strip().lower()
    return kind in ("", "text/html", "application/xhtml+xml")
