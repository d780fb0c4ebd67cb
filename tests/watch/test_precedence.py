"""When a watch takes precedence over a watch with low precedence, and how it handles a late start."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from firstflight.run.run import Run
from firstflight.system import lock
from scanner.planned.precedence import BEFORE_NS, LATE_NS, SOON_NS, Precedence
from scanner.planned.probes import SECOND_NS

NOW_NS = 1_795_154_400 * SECOND_NS


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Record the durations of sleeps, with a stopped clock."""
    times: list[float] = []
    monkeypatch.setattr(time, "time_ns", lambda: NOW_NS)
    monkeypatch.setattr(time, "sleep", times.append)
    return times


def run(folder: Path, *, precedence: str = "normal") -> Run:
    """A run with only the attributes that these tests read."""
    watch = SimpleNamespace(precedence=precedence)
    return cast(Run, SimpleNamespace(path=folder / "run", settings=SimpleNamespace(watch=watch)))


@pytest.mark.parametrize(
    ("begins_in_ns", "active", "waits"),
    [
        (BEFORE_NS + SOON_NS + 1, False, False),
        (BEFORE_NS + SOON_NS, True, False),
        (BEFORE_NS, True, False),
        (BEFORE_NS - LATE_NS, True, False),
        (BEFORE_NS - LATE_NS - 1, True, True),
        (-SECOND_NS, True, True),
    ],
)
@pytest.mark.parametrize("another", [True, False])
def test_a_watch_is_active_from_its_preparation_on(
    tmp_path: Path, slept: list[float], begins_in_ns: int, active: bool, waits: bool, another: bool
) -> None:
    other = Precedence(run(tmp_path, precedence="low"), "east", NOW_NS)
    with ExitStack() as stack:
        if another:
            stack.enter_context(other)
        assert other.reason_to_skip() is None
        with Precedence(run(tmp_path), "east", NOW_NS + begins_in_ns) as precedence:
            assert other.reason_to_skip() == ("limit" if active else None)
            assert slept == ([BEFORE_NS / SECOND_NS] if waits and another else [])
            assert precedence.reason_to_skip() is None
        assert other.reason_to_skip() is None
        assert other.skipped == int(active)


def test_an_early_watch_takes_precedence_at_its_time_and_counts_what_that_takes(
    tmp_path: Path, slept: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    begins_ns = NOW_NS + 3600 * SECOND_NS
    other = Precedence(run(tmp_path, precedence="low"), "east", NOW_NS)
    with other, Precedence(run(tmp_path), "east", begins_ns) as precedence:
        precedence.update(begins_ns - BEFORE_NS - 1)
        assert other.reason_to_skip() is None
        # The machine stalls between the decision and the lock.
        monkeypatch.setattr(time, "time_ns", lambda: begins_ns - SECOND_NS)
        precedence.update(begins_ns - BEFORE_NS)
        assert other.reason_to_skip() == "limit"
        assert slept == [BEFORE_NS / SECOND_NS]
        precedence.update(begins_ns)
        assert len(slept) == 1


def test_vantage_points_have_no_precedence_over_one_another(tmp_path: Path, slept: list[float]) -> None:
    with (
        Precedence(run(tmp_path, precedence="low"), "west", NOW_NS) as other,
        Precedence(run(tmp_path), "east", NOW_NS),
    ):
        assert other.reason_to_skip() is None
    assert slept == [] and not lock.is_shared(tmp_path / "watch-east.lock")
