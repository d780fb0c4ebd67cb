"""Asks the store for the dashboard: named queries by processes that stay, within limits, never forever."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass

from reports.dashboard.faults import NoAnswer
from reports.dashboard.served import ServedStore
from store.base import Limits
from store.url import ServerLocation

# Processes that ask at the same time; further questions wait for one of them.
_AT_ONCE = 2
# A process's start and what it asks of the schema, beside the query itself.
_BESIDE_S = 20
# Then a process ends, so that what its engine keeps cannot grow for weeks.
_QUESTIONS_EACH = 2000


@dataclass(frozen=True)
class Question:
    """A named query with its parameters and the format of the answer; `rolled_up` as in `query.asked_of`."""

    name: str
    given: Mapping[str, str]
    output_format: str
    rolled_up: bool = False


class Asker:
    """Answers questions, at most two at a time."""

    def __init__(self, limits: Limits, served: ServedStore | None = None) -> None:
        self.limits = limits
        self._served = served or ServedStore()
        self._free = asyncio.Semaphore(_AT_ONCE)
        self._idle: list[_Worker] = []

    async def answer(self, question: Question) -> bytes:
        """Return the answer in the question's format. NoAnswer if there is none within the limits."""
        try:
            async with asyncio.timeout(self.limits.seconds):
                await self._free.acquire()
        except TimeoutError:
            raise NoAnswer(
                "busy", "others ask too much of the store at this moment: try again later"
            ) from None
        try:
            worker = await self._worker(await self._served.location())
            return await self._ask(worker, question)
        finally:
            self._free.release()

    async def close(self) -> None:
        """End the processes and the server of the store, if the dashboard started it."""
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
        whole = False
        try:
            async with asyncio.timeout(self.limits.seconds + _BESIDE_S):
                head, content = await worker.ask(question, self.limits)
            whole = True
        except TimeoutError:
            raise NoAnswer("time", "the store did not answer in time: ask for less at once") from None
        except (OSError, EOFError, ValueError):
            raise NoAnswer(
                "store", "the query failed: the standard error of the dashboard says more"
            ) from None
        finally:
            if whole and worker.asked < _QUESTIONS_EACH:
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
            *(sys.executable, "-P", "-m", "reports.dashboard.worker"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the dashboard
        )
        return cls(location, process)

    async def ask(self, question: Question, limits: Limits) -> tuple[dict[str, str], bytes]:
        """Return the head of the answer and its content. OSError, EOFError or ValueError if there is none."""
        self.asked += 1
        assert self.process.stdin is not None and self.process.stdout is not None
        request = asdict(question) | {"limits": asdict(limits)}
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        await self.process.stdin.drain()
        head = json.loads(await self.process.stdout.readuntil(b"\n"))
        return head, await self.process.stdout.readexactly(head["bytes"])

    async def stop(self) -> None:
        """Kill the process: it has nothing to finish."""
        if self.process.returncode is None:
            with suppress(ProcessLookupError):
                self.process.kill()
        await self.process.wait()
        if self.process.stdin is not None:
            self.process.stdin.close()
