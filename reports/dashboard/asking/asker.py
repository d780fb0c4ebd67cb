"""Runs the dashboard's named queries on the store, in long-lived processes and within limits."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import asdict, dataclass

from reports.dashboard.asking.fair_queue import FairQueue, TooManyWait
from reports.dashboard.asking.faults import NoAnswer
from reports.dashboard.asking.served import ServedStore
from reports.dashboard.limits import Allowances
from store.address.url import ServerLocation
from store.base import QueryLimits

CLIENT: ContextVar[str] = ContextVar("client", default="")
"""The client, as in `limits.client_key`. The questions of a page belong to the client of the page."""
# Concurrent questions. In public mode a client has only one of the places, so it never occupies all. The
# dashboard's own questions, which every page needs, have a place that no client can occupy.
_AT_ONCE, _OWN_AT_ONCE = 2, 1
# How long a question waits in the queue, at least.
_QUEUE_S = 20.0
# Additional time for starting a process and for its queries about the schema.
_EXTRA_S = 20
# A process exits after this number of questions, so that its engine's memory cannot grow for weeks.
_QUESTIONS_EACH = 2000


@dataclass(frozen=True)
class Question:
    """A named query with its parameters and the format of the answer; `rolled_up` as in `query.asked_of`."""

    name: str
    given: Mapping[str, str]
    output_format: str
    rolled_up: bool = False


class Asker:
    """Answers questions, two from clients at a time; clients take turns.

    `allowances`: the limits of each client of a public dashboard; `None`: all clients are on this machine.
    """

    def __init__(
        self, limits: QueryLimits, served: ServedStore | None = None, allowances: Allowances | None = None
    ) -> None:
        self.limits = limits
        self._served = served or ServedStore()
        self._allowances = allowances
        self._queue = FairQueue(_AT_ONCE, each=_AT_ONCE if allowances is None else 1)
        self._own_queue = FairQueue(_OWN_AT_ONCE, each=_OWN_AT_ONCE)
        self._idle: list[_Worker] = []

    async def answer(self, question: Question, *, own: bool = False) -> bytes:
        """Return the answer in the question's format. NoAnswer if the limits are exceeded or the store fails.

        `own`: a question of the dashboard, which no client is charged for.
        """
        client = "" if own else CLIENT.get()
        queue = self._own_queue if own else self._queue
        try:
            async with asyncio.timeout(max(self.limits.seconds, _QUEUE_S)):
                await queue.take(client)
        except (TimeoutError, TooManyWait):
            raise NoAnswer("busy", "the store is busy with other queries: try again later") from None
        began = time.monotonic()
        try:
            self._check_allowance(client)
            worker = await self._worker(await self._served.location())
            return await self._ask(worker, question)
        finally:
            queue.give_back(client)
            if client and self._allowances is not None:
                now = time.monotonic()
                self._allowances.store_s.charge(client, now, now - began)

    def _check_allowance(self, client: str) -> None:
        """Raise NoAnswer if the client has used the store for too long."""
        if client and self._allowances and self._allowances.store_s.owed_s(client, time.monotonic()):
            raise NoAnswer("cost", "your questions took too much of the store's time: try again in a minute")

    async def close(self) -> None:
        """Stop the processes, and the server of the store if the dashboard started it."""
        while self._idle:
            await self._idle.pop().stop()
        await self._served.stop()

    async def _worker(self, location: ServerLocation) -> _Worker:
        while self._idle:
            worker = self._idle.pop()
            if worker.location == location and worker.process.returncode is None:
                return worker
            await worker.stop()
        return await _Worker.start(location)

    async def _ask(self, worker: _Worker, question: Question) -> bytes:
        is_complete = False
        try:
            async with asyncio.timeout(self.limits.seconds + _EXTRA_S):
                head, content = await worker.ask(question, self.limits)
            is_complete = True
        except TimeoutError:
            raise NoAnswer("time", "the store did not answer in time: request less data") from None
        except (OSError, EOFError, ValueError):
            raise NoAnswer(
                "store", "the query failed: the dashboard's standard error has the details"
            ) from None
        finally:
            if is_complete and worker.asked < _QUESTIONS_EACH:
                self._idle.append(worker)
            else:  # out of time, or the server stops
                await worker.stop()
        if "fault" in head:
            raise NoAnswer(head["fault"], head["message"])
        return content


@dataclass
class _Worker:
    """A process that asks the server at `location`."""

    location: ServerLocation
    process: asyncio.subprocess.Process
    asked: int = 0

    @classmethod
    async def start(cls, location: ServerLocation) -> _Worker:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "reports.dashboard.asking.worker"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the dashboard
        )
        return cls(location, process)

    async def ask(self, question: Question, limits: QueryLimits) -> tuple[dict[str, str], bytes]:
        """Return the head and the content of the answer. OSError, EOFError or ValueError if that fails."""
        self.asked += 1
        assert self.process.stdin is not None and self.process.stdout is not None
        request = asdict(question) | {"limits": asdict(limits)}
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        await self.process.stdin.drain()
        head = json.loads(await self.process.stdout.readuntil(b"\n"))
        return head, await self.process.stdout.readexactly(head["bytes"])

    async def stop(self) -> None:
        """Kill the process, which has nothing to finish."""
        if self.process.returncode is None:
            with suppress(ProcessLookupError):
                self.process.kill()
        await self.process.wait()
        if self.process.stdin is not None:
            self.process.stdin.close()
