"""The Scrapy spider: visits several names concurrently, but only one name per address at a time."""

from __future__ import annotations

import asyncio
import signal
import time
import traceback
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scrapy import Request, Spider

from crawler.files.fetching.fetch import Asked, Blocked, Fault, HttpResponse, Stopped
from crawler.files.fetching.lookup import Lookup
from crawler.files.fetching.pace import Pace
from crawler.files.fetching.wire import NotPermitted, Wire
from crawler.files.limits import Limits
from crawler.files.visit import Counts, Visit
from firstflight.errors import FirstflightError

# Maximum number of names that wait for a free visit or for their address. About 20 kB each.
_WAITING = 500
# Modules of exceptions for a request without an answer. Other exceptions are faults in this program.
_LIBRARIES = ("twisted.", "scrapy.", "OpenSSL.", "service_identity.", "idna.")
_OWN_FOLDERS = tuple(Path(__file__).parents[2] / package for package in ("crawler", "firstflight", "schemas"))


@dataclass(frozen=True)
class CrawlResult:
    """The result for one name. `address` is `None` if it has no address."""

    domain: str
    address: str | None
    visit: Visit | None
    outcome: str
    reason: str | None
    started_at: int
    duration_us: int

    @property
    def counts(self) -> Counts:
        """Counts of the visit."""
        return Counts() if self.visit is None else self.visit.counts


@dataclass
class Task:
    """A crawl to run. `why_not(address, name)` returns why the address may not be contacted, or `None`."""

    names: Iterable[str]
    lookup: Callable[[], Lookup]
    why_not: Callable[[str, str], str | None]
    sink: Callable[[CrawlResult], None]
    limits: Limits
    concurrency: int
    is_stopped: Callable[[], bool] = lambda: False
    port: int = 443
    # Whether requests may be sent now.
    is_confirmed: Callable[[], bool] = lambda: True
    # The signal or the error that stopped the crawl.
    signal: int | None = None
    error: BaseException | None = field(default=None)
    has_failed: bool = False

    def is_ending(self) -> bool:
        """Return whether to send no more requests."""
        return self.signal is not None or self.has_failed or self.is_stopped()


class FileSpider(Spider):
    """Runs a Task. Scrapy's engine and downloader send the requests."""

    name = "files"

    def __init__(self, task: Task, pace: Pace, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.task = task
        self._pace = pace
        self._locks: dict[str, tuple[asyncio.Lock, list[None]]] = {}

    async def start(self) -> AsyncIterator[Any]:
        """Visit all names. Yields no requests, because each visit waits for its own answers."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._signalled, number)
        try:
            await self._visit_all()
        except BaseException as error:
            self.task.error = error
        if False:  # makes this function a generator, as Scrapy requires
            yield

    def _signalled(self, number: int) -> None:
        self.task.signal = number

    async def _visit_all(self) -> None:
        self._lookup = self.task.lookup()
        self._running = asyncio.Semaphore(self.task.concurrency)
        window = asyncio.Semaphore(_WAITING + self.task.concurrency)
        failed: list[BaseException] = []
        tasks: set[asyncio.Task[None]] = set()

        def over(task: asyncio.Task[None]) -> None:
            tasks.discard(task)
            window.release()
            if not task.cancelled() and (error := task.exception()) is not None:
                self.task.has_failed = True
                failed.append(error)

        for domain in self.task.names:
            await window.acquire()
            if self.task.is_ending():
                break
            task = asyncio.create_task(self._crawl_site(domain))
            tasks.add(task)
            task.add_done_callback(over)
        while tasks:
            await asyncio.wait(tasks)
        if failed:
            raise failed[0]

    async def _crawl_site(self, domain: str) -> None:
        begin = _Begin()
        try:
            addresses = await self._lookup.addresses(domain)
        except Stopped:
            return
        except Blocked as error:
            self.task.sink(begin.without_visit(domain, error.address, "blocked", str(error)))
            return
        except LookupError as error:
            self.task.sink(begin.without_visit(domain, None, "failed", str(error)))
            return
        if not addresses:
            self.task.sink(begin.without_visit(domain, None, "failed", "it has no address"))
            return
        address = addresses[0]
        why = self.task.why_not(address, domain)
        if why is not None:
            self.task.sink(begin.without_visit(domain, address, "blocked", why))
            return
        async with self._exclusive(address), self._running:
            if self.task.is_ending():
                return
            begin = _Begin()
            wire = Wire(address, self.task.why_not, self.task.limits.received_bytes, self.task.port)
            visit = Visit(
                domain, wire, self.task.limits, self._fetch, self._lookup.addresses, self.task.is_ending
            )
            try:
                await visit.run()
            except Stopped:
                return
        self.task.sink(begin.of_visit(visit))

    @asynccontextmanager
    async def _exclusive(self, address: str) -> AsyncIterator[None]:
        """Wait until no other name at this address is being visited."""
        lock, users = self._locks.setdefault(address, (asyncio.Lock(), []))
        users.append(None)
        try:
            async with lock:
                yield
        finally:
            users.pop()
            if not users:
                del self._locks[address]
                self._forget_slot(address)

    def _forget_slot(self, address: str) -> None:
        """Drop Scrapy's slot, which would stay for a minute. The pace still limits the address."""
        assert self.crawler.engine is not None
        slots = self.crawler.engine.downloader.slots
        if address in slots and not slots[address].active:
            slots.pop(address).close()

    async def _fetch(self, visit: Visit, asked: Asked) -> HttpResponse:
        """Send a request with Scrapy. Raise Fault if there is no answer."""
        meta = {
            "visit": visit,
            "wire": visit.wire,
            "pace": self._pace,
            "is_robots": asked.is_robots,
            "keep": asked.keep,
            "reads": asked.reads,
            "download_slot": visit.wire.address,
            "download_timeout": asked.timeout_s,
        }
        assert self.crawler.engine is not None
        try:
            request = Request(asked.url, method=asked.method, headers=asked.headers, meta=meta)
            response = await self.crawler.engine.download_async(request)
        except NotPermitted as error:
            raise Fault(f"not permitted: {error}") from error
        except Exception as error:
            if not _is_of_library(error):
                raise
            raise Fault(_describe(error)) from error
        if response.ip_address is not None and str(response.ip_address) != visit.wire.address:
            raise Fault(f"not permitted: the answer is from {response.ip_address}")
        headers = {
            name.decode("latin-1").lower(): values[0].decode("latin-1")
            for name, values in response.headers.items()
            if values
        }
        return HttpResponse(
            response.status,
            headers,
            response.body,
            is_cut=bool(meta.get("is_cut", request.meta.get("is_cut"))),
            is_whole="dataloss" not in response.flags,
        )


class _Begin:
    """The start time for a name's crawl."""

    def __init__(self) -> None:
        self.at = time.time_ns()
        self._clock = time.monotonic_ns()

    def without_visit(self, domain: str, address: str | None, outcome: str, reason: str) -> CrawlResult:
        return CrawlResult(domain, address, None, outcome, reason, self.at, self._elapsed_us())

    def of_visit(self, visit: Visit) -> CrawlResult:
        return CrawlResult(
            visit.domain, visit.wire.address, visit, visit.outcome, visit.reason, self.at, self._elapsed_us()
        )

    def _elapsed_us(self) -> int:
        return (time.monotonic_ns() - self._clock) // 1000


def _is_of_library(error: Exception) -> bool:
    """Return whether an exception is a request's failure, not a fault in this program.

    Unexpected data from a server may raise a library's ValueError, for example. Such an error also decides
    the name's outcome. It must not stop the crawl, because the crawl would meet it again after a restart.
    """
    if isinstance(error, FirstflightError):
        return False
    if f"{type(error).__module__}.".startswith(_LIBRARIES):
        return True
    path = Path(traceback.extract_tb(error.__traceback__)[-1].filename)
    return type(error).__module__ == "builtins" and not any(
        path.is_relative_to(folder) for folder in _OWN_FOLDERS
    )


def _describe(error: BaseException) -> str:
    """Return why a request got no answer: the innermost cause, with the library's name for it."""
    inner = getattr(error, "reasons", None) or getattr(error.__cause__, "reasons", None)
    if inner:
        return _describe(inner[-1].value)
    cause = error if error.__cause__ is None else error.__cause__
    text = " ".join(str(cause).split())
    return f"{type(cause).__name__}: {text}"[:200].rstrip(": .")
