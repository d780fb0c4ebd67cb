"""The loopback world of campaigns, one for each test module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.campaign_loopback.world import CampaignWorld


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CampaignWorld]:
    made_world = CampaignWorld(tmp_path_factory.mktemp("world"))
    try:
        made_world.raise_it()
        yield made_world
    finally:
        made_world.end()
