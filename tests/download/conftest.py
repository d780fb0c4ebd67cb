"""A world with real servers behind a link of 20 ms, for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.download.world import World


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Return a vantage point and a server, up."""
    folder: Path = tmp_path_factory.mktemp("world")
    folder.chmod(0o755)
    with World(folder) as raised:
        yield raised
