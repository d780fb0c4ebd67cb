"""Crawls a name: from its start page along its links, until it finds a suitable file."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Literal, TypeVar, get_args

from crawler.files.fetching import sizes
from crawler.files.fetching.fetch import Asked, Blocked, Fault, Forbidden, HttpResponse, Stopped, is_html
from crawler.files.fetching.wire import Wire
from crawler.files.limits import Limits
from crawler.files.pages import page, page_thread, robots, urls
from firstflight.cdn import challenge

Outcome = Literal[
    "found",
    "too_small",
    "too_large",
    "no_size",
    "robots",
    "elsewhere",
    "blocked",
    "http_error",
    "limit",
    "failed",
    "nothing_found",
    "challenge",
]
T = TypeVar("T")
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)


class Elsewhere(Exception):
    """A redirect to a host that is not contacted. The message is the URL."""


class _Finished(Exception):
    """The crawl of the name is complete."""

    def __init__(self, outcome: Outcome, reason: str | None = None) -> None:
        super().__init__(outcome)
        self.outcome, self.reason = outcome, reason


@dataclass
class Counts:
    """Counts during the crawl for a name."""

    requests: int = 0
    pages: int = 0
    files: int = 0  # whose size was requested
    links: int = 0  # to files and pages that may be requested
    links_elsewhere: int = 0
    links_unusable: int = 0
    links_left_out: int = 0
    forbidden: int = 0  # requests that robots.txt forbade
    deepest: int = 0


@dataclass
class Visit:
    """One name's crawl over `wire`. `addresses` resolves a name. `is_stopped`: send no more requests.

    `fetch` sends one request of the visit. It raises Fault or Forbidden if there is no answer.
    """

    domain: str
    wire: Wire
    limits: Limits
    fetch: Callable[[Visit, Asked], Awaitable[HttpResponse]]
    addresses: Callable[[str], Awaitable[list[str]]]
    is_stopped: Callable[[], bool] = lambda: False
    clock: Callable[[], float] = time.monotonic
    counts: Counts = field(default_factory=Counts)
    outcome: Outcome = "nothing_found"
    reason: str | None = None
    file: sizes.File | None = None
    """The file of the outcome: the suitable file, or the closest to one."""
    robots_state: str | None = None
    """State of the name's own robots.txt (`robots.Rules.state`); `None` if it was not requested."""

    def __post_init__(self) -> None:
        self._hosts = {self.domain: True}
        self._rules: dict[str, robots.Rules] = {}
        self._seen: set[str] = set()
        self._end = 0.0
        self._processor_s = 0.0
        self._unanswered: list[str] = []
        self._unread: str | None = None

    async def run(self) -> None:
        """Crawl, and set `outcome`, `reason`, `file` and `counts`. Raise Stopped."""
        self._end = self.clock() + self.limits.seconds
        try:
            await self._crawl()
        except _Finished as ended:
            self.outcome, self.reason = ended.outcome, ended.reason
        else:
            self.outcome, self.reason = self._without_file()
        finally:
            self.wire.close()

    def extend(self, seconds: float) -> None:
        """Extend the name's time limit by the seconds that it waited for other names or for its turn."""
        self._end += seconds

    def spend(self, seconds: float) -> None:
        """Count processor time. Raise _Finished if the name exceeds the limit."""
        self._processor_s += seconds
        if self._processor_s > self.limits.processor_seconds:
            raise _Finished("limit", f"{self.limits.processor_seconds:g} seconds of processor time")

    async def _read(self, work: Callable[[], T]) -> T:
        """Return the result of `work`, which parses data from the site, and count the processor time."""
        begin = self.clock()
        result, spent_s = await page_thread.run(work)
        self.extend(self.clock() - begin)
        self.spend(spent_s)
        return result

    # ---- requests

    async def ask(self, asked: Asked) -> HttpResponse:
        """Send one request within the name's limits. Raise Fault, Forbidden or Stopped."""
        if self.is_stopped():
            raise Stopped
        left_s = self._end - self.clock()
        if self.counts.requests >= self.limits.requests:
            raise _Finished("limit", f"{self.limits.requests} requests")
        if left_s <= 0:
            raise _Finished("limit", f"{self.limits.seconds:g} seconds")
        if self.wire.is_spent:
            raise _Finished("limit", f"{self.wire.received} bytes received")
        self.counts.requests += 1
        limited = Asked(
            asked.url,
            asked.method,
            asked.headers,
            asked.keep,
            asked.reads,
            asked.is_robots,
            min(self.limits.request_seconds, max(left_s, 0.1)),
        )
        try:
            answer = await self.fetch(self, limited)
        except Blocked as why:
            self.counts.requests -= 1
            raise _Finished("blocked", str(why)) from why
        except _Finished:  # raised by the earlier request for robots.txt
            self.counts.requests -= 1
            raise
        except Fault as fault:
            self._unanswered.append(str(fault))
            raise
        except Forbidden:  # it was not sent
            self.counts.requests -= 1
            self.counts.forbidden += 1
            # Each check reads all rules, which may be half a megabyte long.
            if self.counts.forbidden >= self.limits.forbidden:
                raise _Finished("robots", f"{self.counts.forbidden} requests are forbidden") from None
            raise
        mark = challenge.of(answer.status, answer.headers)
        if mark is not None:
            raise _Finished("challenge", f"the server asks for human verification ({mark}, {answer.status})")
        if answer.status == 429 and not asked.is_robots:
            raise _Finished("http_error", "the server asks for fewer requests (429)")
        return answer

    async def follow(self, asked: Asked) -> tuple[str, HttpResponse]:
        """Return (URL, answer) after redirects within the name. Raise Elsewhere for other hosts."""
        for _ in range(self.limits.redirects + 1):
            answer = await self.ask(asked)
            target = answer.headers.get("location")
            if not answer.is_redirect or target is None:
                return asked.url, answer
            try:
                target = urls.of_header(target.encode("latin-1"))
                url = urls.absolute(asked.url, target, self.limits.url_characters)
            except urls.Unusable as why:
                raise Fault(f"a redirect cannot be followed: {why}") from why
            # With http upgraded to https, the redirect would lead back here.
            if target.strip().lower().startswith("http:") or not await self.is_here(urls.host_of(url)):
                raise Elsewhere(target[:200])
            asked = Asked(url, asked.method, asked.headers, asked.keep, asked.reads, asked.is_robots)
        raise Fault(f"more than {self.limits.redirects} redirects")

    async def is_here(self, host: str) -> bool:
        """Return whether a host is the name itself, or its `www.` name at the same address and on no list."""
        if host not in self._hosts:
            self._hosts[host] = False
            if host == f"www.{self.domain}" and self.wire.why_not(host) is None:
                begin = self.clock()
                with contextlib.suppress(LookupError, Blocked):
                    self._hosts[host] = self.wire.address in await self.addresses(host)
                self.extend(self.clock() - begin)
            if len(self._hosts) > 10_000:  # a page may name any number of hosts
                self._hosts = {name: is_here for name, is_here in self._hosts.items() if is_here}
        return self._hosts.get(host, False)

    async def rules(self, host: str) -> robots.Rules:
        """Return the rules in a host's robots.txt, which is requested once (RFC 9309)."""
        if host not in self._rules:
            self._rules[host] = robots.UNREACHABLE
            try:
                self._rules[host] = await self._fetch_rules(host)
            except _Finished as ended:
                if ended.outcome == "challenge":
                    self._note_robots(host)
                raise
            self._note_robots(host)
        return self._rules[host]

    def _note_robots(self, host: str) -> None:
        if host == self.domain:
            self.robots_state = self._rules[host].state

    async def _fetch_rules(self, host: str) -> robots.Rules:
        asked = Asked(f"https://{host}/robots.txt", keep=self.limits.robots_bytes, is_robots=True)
        try:
            _, answer = await self.follow(asked)
        except Elsewhere:
            return robots.ELSEWHERE
        except Fault as fault:
            self.reason = str(fault)
            return robots.UNREACHABLE
        return await self._read(lambda: self._rules_of(answer))

    def _rules_of(self, answer: HttpResponse) -> robots.Rules:
        body = answer.content(self.limits.robots_bytes)
        is_whole = answer.is_whole and not answer.is_cut
        if answer.coding and body is not None:
            is_whole = is_whole and len(body) < self.limits.robots_bytes
        return robots.of_answer(answer.status, body, is_whole=is_whole)

    # ---- pages and files

    async def _crawl(self) -> None:
        start = urls.start_of(self.domain)
        queue: deque[tuple[str, int, str | None]] = deque([(start, 0, None)])
        self._seen.add(start)
        while queue:
            url, depth, found_on = queue.popleft()
            self.counts.deepest = max(self.counts.deepest, depth)
            try:
                url, answer = await self._page(url, depth, found_on)
            except (Fault, Forbidden, Elsewhere) as fault:
                if depth == 0:
                    raise self._start_fault(fault) from fault
                continue
            if depth == 0 and answer.status not in (200, 206):
                raise _Finished("http_error", f"the start page has status {answer.status}")
            links = await self._links(answer, url)
            if links is None:
                continue
            self.counts.pages += 1
            self.counts.links_unusable += links.unusable
            self.counts.links_left_out += links.left_out
            for link in await self._new_links(links.files):
                await self._file(link, depth + 1, url)
            if depth < self.limits.depth:
                queue.extend((link, depth + 1, url) for link in await self._new_links(links.pages))

    async def _links(self, answer: HttpResponse, url: str) -> page.Links | None:
        """Return a page's links; `None` if it is not a page or cannot be decoded."""
        content_type = answer.headers.get("content-type", "")
        if answer.status != 200 or not is_html(content_type):
            return None

        def links() -> page.Links | None:
            body = answer.content(self.limits.page_bytes)
            return None if body is None else page.links(body, url, self.limits, content_type)

        result = await self._read(links)
        if result is None:
            self._unread = f"a page has a content coding that cannot be read: {answer.coding[:50]}"
        return result

    async def _new_links(self, links: list[str]) -> list[str]:
        """Return the links that belong to the name and are new."""
        new = []
        for link in links:
            if link in self._seen:
                continue
            if await self.is_here(urls.host_of(link)):
                # The name's requests cannot reach more links than this.
                if len(self._seen) < 100 * self.limits.requests:
                    self._seen.add(link)
                    self.counts.links += 1
                    new.append(link)
            else:
                self.counts.links_elsewhere += 1
        return new

    async def _page(self, url: str, depth: int, found_on: str | None) -> tuple[str, HttpResponse]:
        """Get a page. Its own size counts, too."""
        asked = Asked(url, keep=self.limits.page_bytes, reads=sizes.is_read)
        url, answer = await self.follow(asked)
        if answer.status in (200, 206):
            has_links = is_html(answer.headers.get("content-type", ""))
            file = sizes.of_page(url, answer, depth, found_on)
            if file.size is None and not has_links:
                await self._file(url, depth, found_on, is_page=True)
            elif file.size is not None and (file.size >= self.limits.smallest or not has_links):
                self._compare(file)
        return url, answer

    async def _file(self, url: str, depth: int, found_on: str | None, *, is_page: bool = False) -> None:
        """Request a file's size. Finish the crawl if it is suitable."""
        self.counts.files += 1
        self.counts.deepest = max(self.counts.deepest, depth)
        try:
            file = await sizes.ask(self.follow, self.limits, url, depth, found_on, head=not is_page)
        except (Fault, Forbidden, Elsewhere):
            return
        if file is not None:
            self._compare(file)

    def _compare(self, file: sizes.File) -> None:
        """Keep the file if it is closer to a suitable one. Raise _Finished if it is suitable."""
        if file.size is not None and self.limits.is_suitable(file.size):
            self.file = file
            raise _Finished("found")
        if self.file is None or self._distance(file) < self._distance(self.file):
            self.file = file

    def _distance(self, file: sizes.File) -> tuple[int, int]:
        if file.size is None:
            return 2, 0
        is_above = file.size > self.limits.largest
        return (0, file.size) if is_above else (1, -file.size)

    def _start_fault(self, fault: Exception) -> _Finished:
        if isinstance(fault, Elsewhere):
            return _Finished("elsewhere", f"redirect to {fault}")
        if isinstance(fault, Forbidden):
            # After a redirect, the host is another host of the same site.
            rules = self._rules.get(str(fault) or self.domain, robots.UNREACHABLE)
            if rules is robots.ELSEWHERE:
                return _Finished("elsewhere", "redirect of robots.txt")
            unreachable = rules is robots.UNREACHABLE
            if unreachable and self.reason is not None:  # no answer at all
                return _Finished("failed", self.reason)
            return _Finished("robots", "robots.txt is unreachable" if unreachable else None)
        return _Finished("failed", str(fault))

    def _without_file(self) -> tuple[Outcome, str | None]:
        if self.file is None:
            if self.counts.forbidden:
                return "robots", "all files are forbidden"
            return "nothing_found", self._missed_reason()
        if self.file.size is None:
            return "no_size", self._missed_reason()
        return ("too_large" if self.file.size > self.limits.largest else "too_small"), self._missed_reason()

    def _missed_reason(self) -> str | None:
        """Return which part of the site is unknown and may hide a file; `None` if all parts are known."""
        if self._unread is not None:
            return self._unread
        if not self._unanswered:
            return None
        number = len(self._unanswered)
        return f"{number} request{'s' if number > 1 else ''} got no answer, the first: {self._unanswered[0]}"
