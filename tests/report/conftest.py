"""A loaded run and its page, for all tests that only read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from reports.page import page
from reports.page.content import Content
from store import open_store
from tests.browser import browser as browser
from tests.report import world
from tests.store.conftest import place as place
from tests.store.conftest import tables as tables
from tests.store.conftest import template as template


@dataclass(frozen=True)
class ReportedRun:
    """A run in a store, its gathered figures, and its page."""

    run: str
    url: str
    gathered: Content
    path: Path

    def ask(self, sql: str) -> list[dict[str, Any]]:
        """Return rows of the store."""
        with open_store(self.url) as store:
            return store.rows(sql)


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReportedRun]:
    """The page for a complete campaign."""
    folder = tmp_path_factory.mktemp("report")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FIRSTFLIGHT_RUNS", str(folder / "runs"))
        run = world.campaign(folder, folder / "store")
    url = f"chdb:{folder / 'store'}"
    with open_store(url) as store:
        gathered = page.collect(store)
    assert gathered is not None
    yield ReportedRun(run.id, url, gathered, page.write(gathered, folder / "page"))
