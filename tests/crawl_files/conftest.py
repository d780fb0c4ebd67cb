"""One set of servers for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.crawl_files.world import CrawlWorld, running


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CrawlWorld]:
    with running(tmp_path_factory.mktemp("files")) as servers:
        yield servers
