"""A stage's progress: its speed, the remaining time, and how campaigns read it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from firstflight.errors import Interrupted
from firstflight.system import children
from firstflight.system.reporting import busy, progress, reading
from firstflight.system.reporting.speed import ProgressState, Speed
from orchestration.local.console import Console


@pytest.mark.parametrize(
    ("notes", "per_s"),
    [
        ([], None),
        ([(0, 0)], None),
        ([(0, 0), (1.9, 500)], None),
        ([(0, 0), (2, 500)], 250.0),
        # The work of an earlier attempt does not count.
        ([(7, 1000), (17, 1500)], 50.0),
        # At most the last half minute counts, unless there is only an older entry.
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
        (ProgressState("a probe 1", 5, None), "a probe 1 5"),
        (ProgressState("a probe 1", 5, 10), "a probe 1 5/10"),
        (ProgressState("a probe 1", 5, None, 2.0), "a probe 1 5 (2.0/s)"),
        (ProgressState("a", 200, 1000, 480.4, "rate"), "a 200/1000 (480/s, 0:00:02 left, limit: rate)"),
        (ProgressState("a", 0, 90_000, 10.0), "a 0/90000 (10/s, 2:30:00 left)"),
        (ProgressState("a", 0, 10, 0.0, "paused networks"), "a 0/10 (0.0/s, limit: paused networks)"),
        # Some probes were planned again, so `done` exceeds the total.
        (ProgressState("a", 12, 10, 9.96), "a 12/10 (10.0/s, 0:00:00 left)"),
        (ProgressState("a", 2, 10, None, "the input"), "a 2/10 (limit: the input)"),
    ],
)
def test_a_line_has_the_known_values(state: ProgressState, text: str) -> None:
    assert str(state) == text


def test_a_campaign_reads_what_a_stage_has_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr("firstflight.system.reporting.progress.time.monotonic", lambda: now[0])
    assert progress.read(tmp_path) is None
    limits: list[str | None] = [None]
    with progress.Progress(tmp_path, "a probe 1", 100, lambda: limits[-1]) as shown:
        assert progress.read(tmp_path) == ProgressState("a probe 1", 0, 100)
        shown.update(10)
        now[0] += 4
        limits.append("rate")
        shown.update(30)
        assert progress.read(tmp_path) == ProgressState("a probe 1", 30, 100, 5.0, "rate")
        now[0] += 0.25
        limits.append(None)
        shown.update(44)
        assert progress.read(tmp_path) == ProgressState("a probe 1", 30, 100, 5.0, "rate"), "too soon"
    assert progress.read(tmp_path) == ProgressState("a probe 1", 44, 100, 8.0)


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"done": 3}', '{"label": "a", "done": "x", "total": 1}']
)
def test_an_invalid_file_is_no_progress(tmp_path: Path, content: str) -> None:
    (tmp_path / "progress.json").write_text(content)
    assert progress.read(tmp_path) is None


def test_the_limit_of_a_computing_process_is_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    now, used = [100.0], [3.0]
    monkeypatch.setattr("firstflight.system.reporting.busy.time.monotonic", lambda: now[0])
    limit = busy.Busy("the disk", lambda: used[0])
    assert limit() is None
    for passed, computed, expected in ((10, 9, "this machine"), (10, 1, "the disk"), (0.1, 0.1, "the disk")):
        now[0], used[0] = now[0] + passed, used[0] + computed
        assert limit() == expected
    ended = busy.Busy("the disk", lambda: None)
    now[0] += 10
    assert ended() is None


def test_a_process_that_reads_files_shows_how_far_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One process reads half of a file, waits, and reads the rest. Another process is killed."""
    monkeypatch.setattr(reading, "FILE_EVERY_S", 0.05)
    monkeypatch.setattr(progress, "FILE_EVERY_S", 0.0)
    path, gate = tmp_path / "file", tmp_path / "gate"
    with path.open("wb") as out:
        out.truncate(40_000_000)
    program = """if True:
        import pathlib, sys, time
        path, gate = map(pathlib.Path, sys.argv[1:])
        with path.open("rb", buffering=0) as file:
            file.read(20_000_000)
            while not gate.exists():
                time.sleep(0.02)
            file.read()
        print("all")
    """
    seen: list[ProgressState] = []
    monkeypatch.setattr(progress.Progress, "_write", _keeping(progress.Progress._write, seen, gate))
    process = children.start([sys.executable, "-c", program, str(path), str(gate)], stdout=subprocess.PIPE)
    assert reading.wait_for_exit(process, [path, tmp_path / "none"], tmp_path, "a read") == (b"all\n", b"")
    assert progress.read(tmp_path) == seen[-1]
    assert (seen[0].label, seen[0].done, seen[0].total) == ("a read, MB", 0, 40)
    # Its interpreter also reads some files.
    half = next(state for state in seen if state.done >= 20)
    assert half.done < 40 and seen[-1].done == 40
    assert {state.limit for state in seen} <= {None, "this machine", "reading"}


@pytest.mark.parametrize("module", [reading, children])
def test_a_process_ends_with_the_wait_for_it(
    module: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal to the stage can raise any exception."""
    process = children.start([sys.executable, "-c", "import time; time.sleep(600)"])

    def interrupted(*_: object, **__: object) -> None:
        raise Interrupted("stopped by a signal")

    monkeypatch.setattr(process, "communicate", interrupted)
    with pytest.raises(Interrupted, match="stopped by a signal"):
        module.wait_for_exit(process, *([[], tmp_path, "x"] if module is reading else []))
    assert process.poll() is not None


def _keeping(write: Any, seen: list[ProgressState], gate: Path) -> Any:
    """Record each written state; let the process continue when it has read half."""

    def kept(self: progress.Progress, now: float) -> None:
        write(self, now)
        seen.append(self._state)
        if self._state.done >= 20:
            gate.touch()

    return kept


def test_progress_of_an_earlier_attempt_is_not_shown(tmp_path: Path) -> None:
    before, now = tmp_path / "load", tmp_path / "dissect"
    with progress.Progress(before, "old", 10):
        pass
    console = Console()
    console.begin("a", [now, before])
    assert console._progress(console._running["a"]) is None
    with progress.Progress(now, "new", 10) as shown:
        assert console._progress(console._running["a"]) == ProgressState("new", 0, 10)
        shown.update(3)
    state = console._progress(console._running["a"])
    assert state is not None and (state.label, state.done) == ("new", 3)
