"""The resolve stage and its engine under SIGKILL: no row is lost, and no answered question is repeated."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO

from crawler.lists import stage as targets
from firstflight.run.run import Run
from firstflight.system import files
from scanner.driver.segments import closed_segments
from scanner.resolve import stage as resolve
from tests.download.runs import child_of
from tests.engines import self_killing
from tests.processes import halt
from tests.resolve.conftest import MakeRun
from tests.resolve.named import Named
from tests.resolve.test_resolve_stage import at_rate, rows_in, rows_of
from tests.waiting import PATIENCE_S, until

NAMES = [f"n{i}.example.test" for i in range(200)]


def kept_in(folder: Path) -> int:
    return sum(rows_in(path) for path in closed_segments(folder / "segments"))


def started(run: Run, messages: int | IO[str] = subprocess.PIPE) -> subprocess.Popen[str]:
    argv = [sys.executable, "-m", "cli", "stage", "resolve", "--run", run.id, "--vantage", "here"]
    return subprocess.Popen([*argv, "--repetition", "1"], stderr=messages, text=True)


def test_a_kill_at_any_step_resolves_no_name_again(named: Named, make_run: MakeRun) -> None:
    names = ["www.example.test", "two.example.test", "nope.example.test"]
    steps, after_report = 0, 0
    with self_killing.Runs("scanner.resolve.stage") as runs:
        while True:
            run = make_run(names, resolver="127.0.0.1", port=named.port)
            targets.stage(run)
            key = run.key("here", 1)
            if not runs.killed_before(steps + 1, run.path, key):
                break
            steps += 1
            folder = run.layout.stage("resolve", key)
            before, again_ns = kept_in(folder), time.time_ns()
            if run.done("resolve", key):  # it is not run again
                after_report += 1
            else:
                assert before in (0, 10), "of two.example.test there are four rows"
                resolve.stage(run, key)
                assert sum(row["asked_at"] < again_ns for row in rows_of(run)) == before, steps
                assert not (folder / "segments").exists() and not (folder / "names.txt").exists()
            assert len(rows_of(run)) == 10, steps
    assert steps > 5 and after_report > 0


def started_stage(named: Named, make_run: MakeRun) -> tuple[Run, subprocess.Popen[str], int]:
    """Return a run, its resolve stage, which has closed a segment, and the process id of the engine."""
    run = make_run(NAMES, resolver="127.0.0.1", port=named.port, rate=20, concurrency=4)
    targets.stage(run)
    stage, folder = started(run), run.layout.stage("resolve", run.key("here", 1))
    until(lambda: closed_segments(folder / "segments"), "a segment")
    engine = child_of(stage.pid, str(folder / "names.txt"))
    assert Path(f"/proc/{engine}/comm").read_text().startswith("firstflight-res")
    return run, stage, engine


def test_an_engine_is_killed_while_it_resolves_and_the_next_resumes(named: Named, make_run: MakeRun) -> None:
    run, stage, engine = started_stage(named, make_run)
    key = run.key("here", 1)
    folder = run.layout.stage("resolve", key)
    os.kill(engine, signal.SIGKILL)
    _, messages = stage.communicate(timeout=PATIENCE_S)
    assert stage.returncode == 1 and "ended with status -9" in messages and "Traceback" not in messages
    assert not run.done("resolve", key)
    before, again_ns = kept_in(folder), time.time_ns()
    assert 0 < before < 3 * len(NAMES)
    run = at_rate(run, 0)
    resolve.stage(run, key)
    rows = rows_of(run)
    assert sorted({row["domain"] for row in rows}) == sorted(NAMES) and len(rows) == 3 * len(NAMES)
    assert sum(row["asked_at"] < again_ns for row in rows) == before


def test_names_in_files_emptied_by_a_power_cut_are_resolved_again(named: Named, make_run: MakeRun) -> None:
    run, stage, engine = started_stage(named, make_run)
    key = run.key("here", 1)
    folder = run.layout.stage("resolve", key)
    os.kill(engine, signal.SIGKILL)
    stage.communicate(timeout=PATIENCE_S)
    *earlier, last = closed_segments(folder / "segments")
    last.write_bytes(b"")
    before, again_ns = sum(rows_in(path) for path in earlier), time.time_ns()
    run = at_rate(run, 0)
    resolve.stage(run, key)
    report, rows = run.report("resolve", key), rows_of(run)
    assert report is not None and "1 file was cut short" in report.warnings[0]
    assert sorted({row["domain"] for row in rows}) == sorted(NAMES) and len(rows) == 3 * len(NAMES)
    assert sum(row["asked_at"] < again_ns for row in rows) == before


def test_a_stage_is_killed_and_the_next_waits_for_the_engine_it_left(
    named: Named, make_run: MakeRun, tmp_path: Path
) -> None:
    run, stage, engine = started_stage(named, make_run)
    key = run.key("here", 1)
    # The engine is suspended until the next stage waits for it, so the time until it exits is irrelevant.
    halt(engine)
    stage.kill()
    stage.communicate(timeout=PATIENCE_S)
    assert stage.returncode == -signal.SIGKILL and not run.done("resolve", key)
    messages = tmp_path / "messages"
    with messages.open("w") as file:
        restarted = started(at_rate(run, 0), file)
    try:
        until(lambda: "an earlier program still writes" in messages.read_text(), messages.read_text)
        assert restarted.poll() is None
        resumed_ns = time.time_ns()
    finally:
        os.kill(engine, signal.SIGCONT)
    assert restarted.wait(120) == 0, messages.read_text()
    rows = rows_of(run)
    assert sorted({row["domain"] for row in rows}) == sorted(NAMES) and len(rows) == 3 * len(NAMES)
    before = {row["domain"] for row in rows if row["asked_at"] < resumed_ns}
    summary = files.read_json(run.layout.stage("resolve", key) / "summary.json")
    # The second engine resumed every row of the first engine.
    assert not summary["interrupted"] and summary["resumed"] == len(before) > 0
