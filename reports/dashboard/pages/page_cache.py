"""A cache of pages until the store changes, so that many browsers that reload cost a single answer."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

MOST_BYTES = 32 << 20


@dataclass(frozen=True)
class CachedPage:
    """A page: its HTML and status."""

    content: bytes
    status: int = 200


class PageCache:
    """Pages by address, for a store's newest state. Concurrent requests for a page share an answer."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most = most_bytes
        self._size = 0
        self._pages: OrderedDict[tuple[str, str], CachedPage] = OrderedDict()
        self._making: dict[tuple[str, str], asyncio.Lock] = {}

    async def page(self, address: str, stamp: str, make: Callable[[], Awaitable[CachedPage]]) -> CachedPage:
        """Return the page of `address` for the state `stamp`; only successful ones are kept."""
        key = (address, stamp)
        kept_page = self._pages.get(key)
        if kept_page is not None:
            self._pages.move_to_end(key)
            return kept_page
        making = self._making.setdefault(key, asyncio.Lock())
        try:
            async with making:
                kept_page = self._pages.get(key)
                if kept_page is None:
                    kept_page = await make()
                    if kept_page.status == 200:
                        self._keep(key, kept_page)
                return kept_page
        finally:
            if not making.locked():
                self._making.pop(key, None)

    def _keep(self, key: tuple[str, str], page: CachedPage) -> None:
        self._pages[key] = page
        self._size += len(page.content)
        while self._size > self._most:
            _, oldest = self._pages.popitem(last=False)
            self._size -= len(oldest.content)
