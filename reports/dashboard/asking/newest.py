"""The state of the store for all pages and open browsers; queried at most every few seconds."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any

from reports.dashboard.asking.asker import Asker, Question

FRESH_S = 2.0
"""Answers within this time are identical."""


@dataclass(frozen=True)
class StoreState:
    """The state of the store: `stamp` changes with every load.

    Days are UTC: `first_day` is the first with probes, `last_day` the last with any measurement; `None`
    without rows.
    """

    stamp: str
    data_until: str | None
    cdns: tuple[str, ...] = ()
    vantages: tuple[str, ...] = ()
    first_day: date | None = None
    last_day: date | None = None
    tables: frozenset[str] = frozenset()
    """The tables with rows: watch, downloads, handshakes."""
    days: Mapping[str, tuple[date, date]] = field(default_factory=dict)
    """For each of these names, the first and last day with rows, from the load log."""
    rolled_up: bool = False
    """Whether the roll-ups contained all probes at the time of `stamp`."""


class Watcher:
    """Asks `newest_load`, and after a change `not_rolled_up` and `known_names`."""

    def __init__(self, asker: Asker) -> None:
        self._asker = asker
        self._asking = asyncio.Lock()
        self._until = 0.0
        self._newest: StoreState | None = None

    async def newest(self) -> StoreState:
        """Return the state of the store. NoAnswer if the store does not answer."""
        async with self._asking:
            if self._newest is None or time.monotonic() >= self._until:
                self._newest = await self._asked(self._newest)
                self._until = time.monotonic() + FRESH_S
            return self._newest

    async def _asked(self, before: StoreState | None) -> StoreState:
        (row,) = await self._rows("newest_load")
        stamp = "-".join(str(value) for value in row.values())
        if before is not None and before.stamp == stamp:
            return before
        rolled_up = not await self._rows("not_rolled_up")
        known = await self._rows("known_names", rolled_up=rolled_up)
        days = [date.fromisoformat(entry[key]) for entry in known for key in ("first_day", "last_day")]
        has = {"watch": "planned_probes", "downloads": "downloads", "handshakes": "handshakes"}
        return StoreState(
            stamp=stamp,
            data_until=_time_text(row["data_until_ms"]),
            cdns=tuple(entry["name"] for entry in known if entry["kind"] == "cdn"),
            vantages=tuple(entry["name"] for entry in known if entry["kind"] == "vantage"),
            first_day=min(days, default=None),
            # Downloads and handshakes may be newer than the newest probe, or the only rows.
            last_day=max([*days, *_days(row["data_until_ms"])], default=None),
            tables=frozenset(name for name, column in has.items() if int(row[column])),
            days={
                name: (span[0], span[-1])
                for name in has
                if (span := _days(row[f"{name}_since_ms"], row[f"{name}_until_ms"]))
            },
            rolled_up=rolled_up,
        )

    async def _rows(self, name: str, *, rolled_up: bool = False) -> list[Mapping[str, Any]]:
        answer = await self._asker.answer(Question(name, {}, "JSONEachRow", rolled_up), own=True)
        return [json.loads(line) for line in answer.splitlines()]


def _days(*milliseconds: int | str | None) -> list[date]:
    """Return the UTC days of the given times, without missing ones."""
    return [
        datetime.fromtimestamp(int(time_ms) // 1000, UTC).date()
        for time_ms in milliseconds
        if time_ms is not None
    ]


def _time_text(milliseconds: int | str | None) -> str | None:
    """Return a time as text, in UTC and whole seconds."""
    if milliseconds is None:
        return None
    return f"{datetime.fromtimestamp(int(milliseconds) // 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
