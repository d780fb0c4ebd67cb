"""Runs what takes processor time beside the event loop, which all names share, and says how much it took."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

# One thread: two would take from the event loop twice what one does.
_THREAD = ThreadPoolExecutor(1, "pages")


async def run(work: Callable[[], T]) -> tuple[T, float]:
    """Return the result of `work`, and its seconds of processor time; it waits for work of others."""

    def timed() -> tuple[T, float]:
        begin = time.thread_time()
        result = work()
        return result, time.thread_time() - begin

    return await asyncio.get_running_loop().run_in_executor(_THREAD, timed)
