"""One request and its answer, as a visit sees them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from crawler.files import coding
from firstflight.system import from_outside


class Fault(Exception):
    """A request without an answer: the message says why, in words."""


class Forbidden(Exception):
    """The rules of robots.txt of the host that it names forbid the request: it was not sent."""


class Blocked(Exception):
    """A list or rule of the machine forbids a request to `address`: it was not sent. The message says why."""

    def __init__(self, why: str, address: str | None = None) -> None:
        super().__init__(why)
        self.address = address


class Stopped(Exception):
    """The crawl was asked to stop: nothing more is sent."""


@dataclass
class Answer:
    """The answer to a request. `headers`: first values, names in lower case; `body` may be cut (`is_cut`).

    `is_whole`: the body is as long as its length, its chunks or the end of the connection say.
    """

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    is_cut: bool = False
    is_whole: bool = True

    @property
    def length(self) -> int | None:
        """The Content-Length; None if there is none, or no number."""
        return from_outside.content_length(self.headers.get("content-length", ""))

    @property
    def coding(self) -> str:
        """The content coding, which nobody asked for; empty if there is none."""
        return coding.name_of(self.headers.get("content-encoding", ""))

    @property
    def is_page(self) -> bool:
        """Whether the body is HTML in a content coding that can be read."""
        return coding.is_read(self.coding) and is_html(self.headers.get("content-type", ""))

    def content(self, most: int) -> bytes | None:
        """Return at most `most` bytes of the body without its content coding; None if that cannot be read."""
        return coding.decoded(self.body, self.coding, most)

    @property
    def is_redirect(self) -> bool:
        """Whether it says that the resource is elsewhere (RFC 9110 15.4)."""
        return self.status in (301, 302, 303, 307, 308)


@dataclass(frozen=True)
class Asked:
    """A request: `keep` bytes of the body at most; `reads` says by the header fields whether to read it."""

    url: str
    method: str = "GET"
    headers: dict[str, str] = field(default_factory=dict)
    keep: int = 0
    reads: Callable[[Any], bool] | None = None
    is_robots: bool = False
    timeout_s: float = 30.0


def is_html(content_type: str) -> bool:
    """Return whether a Content-Type is that of pages; a missing one may be."""
    kind = content_type.partition(";")[0].strip().lower()
    return kind in ("", "text/html", "application/xhtml+xml")
