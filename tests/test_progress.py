"""Progress of a stage: its speed, what is left, and what campaigns read of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from firstflight.system import progress
from firstflight.system.speed import Speed, State


@pytest.mark.parametrize(
    ("notes", "per_s"),
    [
        ([], None),
        ([(0, 0)], None),
        ([(0, 0), (1.9, 500)], None),
        ([(0, 0), (2, 500)], 250.0),
        # What an earlier attempt did does not count.
        ([(7, 1000), (17, 1500)], 50.0),
        # Half a minute, not more; but a note that is older, if there is no other.
        ([(0, 0), (10, 0), (20, 100), (40, 200)], 200 / 30),
        ([(0, 0), (10, 0), (20, 100), (50, 400)], 10.0),
        ([(0, 0), (100, 400)], 4.0),
        ([(0, 5), (10, 5)], 0.0),
    ],
)
def test_the_speed_is_that_of_the_last_half_minute(
    notes: list[tuple[float, int]], per_s: float | None
) -> None:
    speed = Speed()
    for now, done in notes:
        speed.note(now, done)
    assert speed.per_s() == (None if per_s is None else pytest.approx(per_s))


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (State("a probe 1", 5, None), "a probe 1 5"),
        (State("a probe 1", 5, 10), "a probe 1 5/10"),
        (State("a probe 1", 5, None, 2.0), "a probe 1 5 (2.0/s)"),
        (State("a", 200, 1000, 480.4, "rate"), "a 200/1000 (480/s, 0:00:02 left, limit: rate)"),
        (State("a", 0, 90_000, 10.0), "a 0/90000 (10/s, 2:30:00 left)"),
        (State("a", 0, 10, 0.0, "paused networks"), "a 0/10 (0.0/s, limit: paused networks)"),
        # Probes that were planned again: more than all are done.
        (State("a", 12, 10, 9.96), "a 12/10 (10.0/s, 0:00:00 left)"),
        (State("a", 2, 10, None, "the input"), "a 2/10 (limit: the input)"),
    ],
)
def test_a_line_says_what_is_known(state: State, text: str) -> None:
    assert str(state) == text


def test_a_campaign_reads_what_a_stage_has_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr("firstflight.system.progress.time.monotonic", lambda: now[0])
    assert progress.read(tmp_path) is None
    limits: list[str | None] = [None]
    with progress.Progress(tmp_path, "a probe 1", 100, lambda: limits[-1]) as shown:
        assert progress.read(tmp_path) == State("a probe 1", 0, 100)
        shown.update(10)
        now[0] += 4
        limits.append("rate")
        shown.update(30)
        assert progress.read(tmp_path) == State("a probe 1", 30, 100, 5.0, "rate")
        now[0] += 0.25
        limits.append(None)
        shown.update(44)
        assert progress.read(tmp_path) == State("a probe 1", 30, 100, 5.0, "rate"), "too soon"
    assert progress.read(tmp_path) == State("a probe 1", 44, 100, 8.0)


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"done": 3}', '{"label": "a", "done": "x", "total": 1}']
)
def test_a_file_that_is_none_is_no_progress(tmp_path: Path, content: str) -> None:
    (tmp_path / "progress.json").write_text(content)
    assert progress.read(tmp_path) is None
