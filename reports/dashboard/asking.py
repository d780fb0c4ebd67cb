"""Asks the store for the dashboard: each question in a process of its own, within limits, never forever."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass

from store.base import Limits

# Processes that ask at the same time; further questions wait for one of them.
_AT_ONCE = 2
# Start of a process, its wait for the store and what it asks of the schema, beside the query itself.
_BESIDE_S = 20

STATUS: Mapping[str, int] = {"busy": 503, "store": 503, "time": 504, "size": 413, "parameter": 400}
"""Kind of failure -> HTTP status."""


class NoAnswer(Exception):
    """A question without answer: `fault` is a name of STATUS, the text one sentence."""

    def __init__(self, fault: str, message: str) -> None:
        super().__init__(message)
        self.fault = fault


@dataclass(frozen=True)
class Question:
    """A named query with its parameters and the format of the answer."""

    name: str
    given: Mapping[str, str]
    output_format: str


class Asker:
    """Answers questions, at most two at a time."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._free = asyncio.Semaphore(_AT_ONCE)

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
            return await self._ask(question)
        finally:
            self._free.release()

    async def _ask(self, question: Question) -> bytes:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",
            "-m",
            "reports.dashboard.worker",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        request = json.dumps(asdict(question) | {"limits": asdict(self.limits)}).encode()
        try:
            async with asyncio.timeout(self.limits.seconds + _BESIDE_S):
                answer, _ = await process.communicate(request)
        except TimeoutError:
            raise NoAnswer("time", "the store did not answer in time: ask for less at once") from None
        finally:
            if process.returncode is None:  # out of time, or the server stops
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        first, _, content = answer.partition(b"\n")
        if process.returncode or not first:
            raise NoAnswer("store", "the query failed: the standard error of the dashboard says more")
        head = json.loads(first)
        if head:
            raise NoAnswer(head["fault"], head["message"])
        return content
