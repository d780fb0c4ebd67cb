"""A worker that is started again after kill -9 waits once, as long as the centre needs."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from firstflight.errors import UsageError
from orchestration.airflow import predecessor
from tests.waiting import until

DEAD = 4_194_305  # above the kernel's largest process number


def waited(home: Path) -> tuple[list[str], list[float]]:
    messages: list[str] = []
    slept: list[float] = []
    predecessor.wait(home, messages.append, slept.append)
    return messages, slept


@pytest.mark.parametrize("content", [None, "", "no number"])
def test_a_worker_that_ended_in_order_leaves_nothing_to_wait_for(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "airflow-edge-worker.pid").write_text(content)
    assert waited(tmp_path) == ([], [])


@pytest.mark.parametrize(("interval", "seconds"), [("2", 15), ("30", 155), (None, 155), ("often", 155)])
def test_after_a_kill_it_waits_for_five_heartbeats_and_reports_it_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interval: str | None, seconds: float
) -> None:
    monkeypatch.delenv("AIRFLOW__EDGE__HEARTBEAT_INTERVAL", raising=False)
    if interval is not None:
        monkeypatch.setenv("AIRFLOW__EDGE__HEARTBEAT_INTERVAL", interval)
    file = tmp_path / "airflow-edge-worker.pid"
    file.write_text(f"{DEAD}\n")
    messages, slept = waited(tmp_path)
    assert slept == [seconds]
    assert [f"starting in {seconds} s" in text for text in messages] == [True]
    assert not file.exists()


def test_time_since_the_machine_started_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "airflow-edge-worker.pid"
    for uptime, slept in ((60.0, [95.0]), (3600.0, [])):
        file.write_text(f"{DEAD}\n")
        os.utime(file, (time.time() - 10_000, time.time() - 10_000))
        monkeypatch.setattr(predecessor, "_uptime_s", lambda uptime=uptime: uptime)
        assert waited(tmp_path)[1] == slept
        assert not file.exists()


def test_a_number_that_another_program_has_now_is_no_obstacle(tmp_path: Path) -> None:
    file = tmp_path / "airflow-edge-worker.pid"
    file.write_text(f"{os.getpid()}\n")
    assert len(waited(tmp_path)[1]) == 1
    assert not file.exists()


def test_a_worker_that_runs_is_named(tmp_path: Path) -> None:
    other = subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()", "airflow edge worker: x"],
        stdin=subprocess.PIPE,
    )
    try:
        # The kernel shows a new program's arguments somewhat later than Popen returns.
        until(lambda: b"worker" in Path(f"/proc/{other.pid}/cmdline").read_bytes(), "its arguments")
        file = tmp_path / "airflow-edge-worker.pid"
        file.write_text(f"{other.pid}\n")
        with pytest.raises(UsageError, match=f"process {other.pid}"):
            waited(tmp_path)
        assert file.exists()
    finally:
        other.communicate()
