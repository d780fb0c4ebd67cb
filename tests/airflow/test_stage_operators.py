"""Tasks of a stopped run and of a run that is days late: stages that have measured nothing are skipped."""

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

STAGES = ("resolve", "scan", "probe", "handshake", "calibrate")
# Whether the run is stopped, the started stages, the skipped stages.
CASES: list[tuple[bool, tuple[str, ...], tuple[str, ...]]] = [
    (True, (), STAGES),
    (True, ("resolve",), STAGES),
    # A skipped task skips all later tasks, also dissect and load.
    (True, ("resolve", "scan"), ()),
    (True, ("resolve", "probe"), ()),
    (False, (), STAGES),
    # Names resolved days ago are no longer probed. The resolution of a list may take days and finishes.
    (False, ("resolve",), STAGES[1:]),
    # Later tasks load the addresses that the scan found.
    (False, ("resolve", "scan"), ()),
    (False, ("resolve", "probe"), ()),
]
# Prints the stages with skipped tasks for each named run. The centre does not answer.
_TASKS = """
import json, sys
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException
from firstflight.run.run import Run
from orchestration.airflow.centre import LoadCentre
from orchestration.airflow.stage_operators import StageOperator
stages, *runs = (words.split() for words in sys.argv[1:])
for run in map(Run.with_id, *runs):
    skipped = []
    for stage in stages:
        task = StageOperator(task_id=stage, stage=stage, vantage="here", run=run.id, repetition=1)
        try:
            if run.layout.stop_file.exists():
                task.execute({})
            elif (too_late := task._wait_until_due(run, key := run.key("here", 1))) is not None:
                task._skip(too_late, run, key)
        except AirflowSkipException:
            skipped.append(stage)
    print(json.dumps([run.id, skipped]))
# Without names the probes do not start, whatever the scan did.
try:
    own = {"vantage": "here", "run": runs[-1][-1], "repetition": 1}
    StageOperator(task_id="needs", stage="probe", needs="handshake", **own).execute({})
except AirflowFailException as error:
    print("needs:", error)
# A worker's task can write the value of another task.
try:
    LoadCentre(task_id="load_run", run="../elsewhere").execute({})
except AirflowFailException as error:
    print("refused:", error)
"""


def began(folder: Path, stopped: bool, stages: tuple[str, ...]) -> Run:
    """Return a scheduled run of four days ago. The stages in `begun` have reports."""
    enabled = [f"{name}.enabled=true" for name in ("handshake", "calibrate")]
    run = Run.create(*settings.load(minimal.write(folder), [*enabled, *minimal.SCAN]))
    started = datetime.now(UTC) - timedelta(days=4)
    run.write_manifest({**run.manifest, "dag_run": "a", "started_at": started.isoformat()})
    for stage in stages:
        with run.stage(stage, run.key("here", 1)):
            pass
    if stopped:
        run.layout.stop_file.touch()
    return run


def test_stages_without_measurements_are_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert "needs: stage handshake of " in ended.stdout
    assert "refused: " in ended.stdout and "../elsewhere" in ended.stdout.partition("refused: ")[2]
