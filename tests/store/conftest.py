"""A separate store for each test."""

from __future__ import annotations

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
