"""A second process for a running stage fails no campaign and does not remove the output of the first one."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from firstflight.errors import Interrupted, UsageError
from firstflight.run.run import Run
from firstflight.system import lock
from orchestration import execute
from orchestration.stages import Stage
from tests.orchestration.test_stage_again import probe as probe
from tests.orchestration.test_stage_again import run as run


def _running(run: Run, ready: threading.Event, end: threading.Event) -> None:
    """Hold the stage as a process that runs it does, and write the output."""
    key = run.key("here", 1)
    with lock.locked(run.layout.stage_lock("probe", key), "stage probe"):
        (run.layout.stage("probe", key) / "rows").write_text("measured")
        ready.set()
        end.wait(60)


@pytest.fixture
def busy(run: Run) -> threading.Event:
    """Let another process run the stage; set the event to end it."""
    ready, end = threading.Event(), threading.Event()
    threading.Thread(target=_running, args=(run, ready, end), daemon=True).start()
    assert ready.wait(30)
    return end


def test_a_stage_of_a_campaign_waits_for_a_user_s(
    run: Run,
    probe: Stage,
    busy: threading.Event,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(execute, "BUSY_S", 0.1)
    ran: list[bool] = []
    monkeypatch.setattr(Stage, "function", lambda _: lambda *_, **__: ran.append(busy.is_set()))
    threading.Timer(0.5, busy.set).start()
    execute.run_here(run, probe, run.key("here", 1), False, {}, patient=True)
    assert ran == [True], "it ran after the other one had ended"
    assert "probe: waiting for process" in capsys.readouterr().err


def test_the_wait_ends_with_the_run(
    run: Run, probe: Stage, busy: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execute, "LOOK_S", 0.05)
    run.layout.stop_file.touch()
    with pytest.raises(Interrupted):
        execute.run_here(run, probe, run.key("here", 1), False, {}, patient=True)
    busy.set()


def test_again_removes_nothing_under_a_running_stage(
    run: Run, probe: Stage, busy: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execute, "BUSY_S", 0.1)
    rows: Path = run.layout.stage("probe", run.key("here", 1)) / "rows"
    with pytest.raises(UsageError, match=r"stage probe has been held for more than 0\.1 s by process"):
        execute.run_here(run, probe, run.key("here", 1), True, {})
    assert rows.read_text() == "measured"
    busy.set()
