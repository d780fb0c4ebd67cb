"""The store server that the dashboard starts, with a slow start, or while another process holds the store."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from reports.dashboard.asking import served
from reports.dashboard.asking.faults import NoAnswer
from store import open_store
from store.address.url import ServerLocation
from store.location import EmbeddedLocation, locked_store
from tests.waiting import PATIENCE_S


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EmbeddedLocation:
    """A store without tables. FIRSTFLIGHT_STORE has its address."""
    found = EmbeddedLocation(tmp_path / "store")
    monkeypatch.setenv("FIRSTFLIGHT_STORE", found.public_url)
    with open_store(write=True):
        pass
    return found


async def located() -> ServerLocation:
    """Return a server for queries that do not wait for others. Any start is slower than that."""
    store = served.ServedStore()
    try:
        return await store.location(wait_s=0)
    finally:
        await store.stop()


def test_a_server_that_starts_slowly_is_waited_for(
    place: EmbeddedLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served, "_START_S", PATIENCE_S)
    assert asyncio.run(located()).host == "127.0.0.1"
    assert place.served() is None, "the server must be stopped"


def test_another_process_that_has_the_store_is_named(place: EmbeddedLocation) -> None:
    message = f"is in use by process {os.getpid()}: try again"
    with locked_store(place, 0), pytest.raises(NoAnswer, match=message):
        asyncio.run(located())


def test_a_server_that_does_not_start_is_no_other_process(
    place: EmbeddedLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served, "_START_S", 0.0)
    with pytest.raises(NoAnswer, match=f"the store in {place.path} is being started: try again later"):
        asyncio.run(located())
