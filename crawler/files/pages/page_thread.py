"""Runs CPU-bound work in a thread, outside of the names' common event loop, and measures the CPU time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

# One thread only: a second thread would take as much time from the event loop again.
_THREAD = ThreadPoolExecutor(1, "pages")


async def run(work: Callable[[], T]) -> tuple[T, float]:
    """Return the result of `work`, and the CPU time in seconds. Waits for earlier work."""

    def timed() -> tuple[T, float]:
        begin = time.thread_time()
        result = work()
        return result, time.thread_time() - begin

    return await asyncio.get_running_loop().run_in_executor(_THREAD, timed)
