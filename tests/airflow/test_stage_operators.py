"""Tasks of a stopped run, and of one that is days late: those of what has measured nothing are skipped."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from firstflight import settings
from firstflight.run.run import Run
from tests import minimal
from tests.airflow.conftest import airflow_environment

STAGES = ("resolve", "probe", "handshake", "calibrate")
# Whether the run is stopped, what had begun, what is skipped.
CASES: list[tuple[bool, tuple[str, ...], tuple[str, ...]]] = [
    (True, (), STAGES),
    (True, ("resolve",), STAGES),
    # A skip is that of all later tasks, too: of dissect and load.
    (True, ("resolve", "probe"), ()),
    (False, (), STAGES),
    # What was resolved days ago is not probed any more; a list that takes days is resolved to its end.
    (False, ("resolve",), STAGES[1:]),
    (False, ("resolve", "probe"), ()),
]
# Prints for each run named the stages whose tasks are skipped. The centre does not answer.
_TASKS = """
import json, sys
from airflow.sdk.exceptions import AirflowSkipException
from firstflight.run.run import Run
from orchestration.airflow.stage_operators import StageOperator
stages, *runs = (words.split() for words in sys.argv[1:])
for run in map(Run.with_id, *runs):
    skipped = []
    for stage in stages:
        task = StageOperator(task_id=stage, stage=stage, vantage="here", run=run.id, repetition=1)
        try:
            if run.layout.stop_file.exists():
                task.execute({})
            else:
                task._wait_until_due(run, run.key("here", 1))
        except AirflowSkipException:
            skipped.append(stage)
    print(json.dumps([run.id, skipped]))
"""


def began(folder: Path, stopped: bool, begun: tuple[str, ...]) -> Run:
    """A scheduled run of four days ago, whose stages `begun` have reports."""
    run = Run.create(*settings.load(minimal.write(folder), [f"{name}.enabled=true" for name in STAGES[2:]]))
    started = datetime.now(UTC) - timedelta(days=4)
    run.write_manifest({**run.manifest, "dag_run": "a", "started_at": started.isoformat()})
    for stage in begun:
        with run.stage(stage, run.key("here", 1)):
            pass
    if stopped:
        run.layout.stop_file.touch()
    return run


def test_what_has_measured_nothing_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRSTFLIGHT_RUNS", str(tmp_path / "runs"))
    expected = {began(tmp_path, stopped, begun).id: list(skipped) for stopped, begun, skipped in CASES}
    environment = airflow_environment(tmp_path / "home") | {
        "AIRFLOW__EDGE__API_URL": "http://127.0.0.1:9/edge_worker/v1/rpcapi",
        "AIRFLOW__API_AUTH__JWT_SECRET": "s" * 64,
    }
    words = [sys.executable, "-c", _TASKS, " ".join(STAGES), " ".join(expected)]
    ended = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    found = [json.loads(line) for line in ended.stdout.splitlines() if line.startswith('["')]
    assert dict(found) == expected
