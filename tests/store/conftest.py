"""A separate store for each test."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from store import migrate, open_store


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Path of a missing store that FIRSTFLIGHT_STORE names, also for processes of the test."""
    folder = tmp_path / "store"
    monkeypatch.setenv("FIRSTFLIGHT_STORE", f"chdb:{folder}")
    return folder


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with all tables and no rows, made once."""
    folder = tmp_path_factory.mktemp("template") / "store"
    with open_store(f"chdb:{folder}", write=True) as store:
        migrate.migrate(store)
    return folder


@pytest.fixture
def tables(place: Path, template: Path) -> Path:
    """Like `place`, with all tables (a copy: making them takes a second)."""
    shutil.copytree(template, place, symlinks=True)
    return place
