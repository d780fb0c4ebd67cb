"""A stage that is repeated: what an engine of the earlier one still writes is not removed under it."""

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
    """The probe stage, which does nothing."""
    monkeypatch.setattr(Stage, "function", lambda _: lambda *_, **__: None)
    monkeypatch.setattr(execute, "_install_signal_handlers", lambda: None)
    (stage,) = (one for one in stages.STAGES if one.name == "probe")
    return stage


@contextmanager
def held(folder: Path) -> Iterator[int]:
    """Hold the lock of a folder of segments, as an engine does; yield what it is held by."""
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
