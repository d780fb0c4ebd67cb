"""The loopback world of campaigns, one for each test module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.campaign_loopback.world import World


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    here = World(tmp_path_factory.mktemp("world"))
    try:
        here.raise_it()
        yield here
    finally:
        here.end()
