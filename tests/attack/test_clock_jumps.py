"""A wall clock that is set while a campaign runs: it waits no longer than the interval of its settings."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from downloader.shared_limits import TURN_IN_PAUSES, Turn
from downloader.targets import Target
from orchestration.local.campaign import until_due_s

BEFORE = datetime(2026, 11, 20, 6, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("now", "wait_s"),
    [
        (BEFORE + timedelta(minutes=20), 2400),
        (BEFORE + HOUR, 0),
        (BEFORE + timedelta(days=400), 0),
        (BEFORE - timedelta(days=400), 3600),
        (BEFORE, 3600),
    ],
)
def test_a_campaign_waits_no_longer_than_its_interval(now: datetime, wait_s: float) -> None:
    assert until_due_s(BEFORE, HOUR, now) == wait_s


@pytest.mark.parametrize("jump_s", [-400 * 86400.0, -3600.0, 0.0, 3600.0, 400 * 86400.0])
def test_the_turns_of_downloads_come_round_whatever_the_clock(jump_s: float) -> None:
    """A turn depends on the time of day alone, so a clock that jumps costs at most one round of turns."""
    target = Target(1, "https://a.test/file", "a.test", "a.test", "198.18.48.1", 443, "/file")
    for index in range(3):
        turn = Turn(index, 3, 60.0)
        wait_s = turn.begins_in(target, 1_795_154_400.0 + jump_s)
        assert 0 <= wait_s <= turn.of * TURN_IN_PAUSES * turn.pause_s
        assert turn.begins_in(target, 1_795_154_400.0 + jump_s + wait_s) == 0
