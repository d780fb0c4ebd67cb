"""A separate store for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import stores


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Path of a missing store. FIRSTFLIGHT_STORE names it, also for processes that the test starts."""
    folder = tmp_path / "store"
    monkeypatch.setenv("FIRSTFLIGHT_STORE", f"chdb:{folder}")
    return folder


@pytest.fixture(scope="session")
def template() -> Path:
    """A store with all tables and no rows, created once."""
    return stores.template()


@pytest.fixture
def tables(place: Path) -> Path:
    """Like `place`, with all tables."""
    stores.with_tables(place)
    return place


@pytest.fixture(scope="module")
def shared_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[stores.SharedStore]:
    """A store that the tests of a module share; use `emptied_tables`."""
    store = stores.SharedStore(tmp_path_factory.mktemp("shared") / "store")
    yield store
    store.close()


@pytest.fixture
def emptied_tables(
    shared_store: stores.SharedStore, place: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Like `tables`, at lower cost, for modules that open stores in this process only (`SharedStore`)."""
    del place  # sets the same variable, and earlier
    monkeypatch.setenv("FIRSTFLIGHT_STORE", shared_store.url)
    yield
    shared_store.empty()
