"""A repeated stage: files that an engine of the earlier attempt still writes are not removed."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from firstflight import settings
from firstflight.errors import Interrupted
from firstflight.run.run import Run
from orchestration import execute, stages
from orchestration.stages import Stage
from tests import minimal


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("FIRSTFLIGHT_RUNS", str(tmp_path / "runs"))
    return Run.create(*settings.load(minimal.write(tmp_path)))


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch) -> Stage:
    """A probe stage that does nothing."""
    monkeypatch.setattr(Stage, "function", lambda _: lambda *_, **__: None)
    monkeypatch.setattr(execute, "_install_signal_handlers", lambda: None)
    (stage,) = (each_stage for each_stage in stages.STAGES if each_stage.name == "probe")
    return stage


@contextmanager
def held(folder: Path) -> Iterator[int]:
    """Lock a folder of segments, as an engine does; yield the descriptor that holds the lock."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield handle
    finally:
        os.close(handle)


def test_a_repeated_stage_waits_for_an_earlier_engine(run: Run, probe: Stage) -> None:
    key = run.key("here", 1)
    segments = run.layout.stage("probe", key) / "segments"
    segments.mkdir(parents=True)
    ended = threading.Event()
    with held(segments) as folder:

        def end() -> None:
            ended.set()
            fcntl.flock(folder, fcntl.LOCK_UN)

        threading.Timer(0.5, end).start()
        execute.run_here(run, probe, key, True, {})
        assert ended.is_set() and not segments.parent.exists()


def test_a_stop_ends_the_wait_and_nothing_is_removed(run: Run, probe: Stage) -> None:
    key = run.key("here", 1)
    segments = run.layout.stage("probe", key) / "segments"
    segments.mkdir(parents=True)
    run.layout.stop_file.touch()
    with held(segments), pytest.raises(Interrupted):
        execute.run_here(run, probe, key, True, {})
    assert segments.is_dir()
