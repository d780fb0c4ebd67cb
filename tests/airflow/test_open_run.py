"""A failed first task leaves a run that is marked as failed, and the run is removed later."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from firstflight.run.run import Run
from orchestration.site import pending_uploads
from tests.airflow.conftest import SITE, airflow_environment

# The task of the DAG crawl as Airflow runs it, for a day.
_OPEN = """
from datetime import UTC, datetime
from types import SimpleNamespace
from airflow.exceptions import AirflowException
from orchestration.airflow.open_run import OpenCrawl
day = datetime(2026, 11, 20, tzinfo=UTC)
context = {
    "dag_run": SimpleNamespace(run_id="scheduled__1", logical_date=day, run_type="scheduled"),
    "dag": SimpleNamespace(dag_id="crawl"),
    "ti": SimpleNamespace(hostname="centre"),
}
try:
    OpenCrawl(task_id="open").execute(context)
except AirflowException as error:
    print("failed:", error)
"""


@pytest.mark.parametrize(("names", "is_list"), [(b"a.test\n", True), (b"\xff\xfe\n", False)])
def test_the_first_task_creates_these_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: bytes, is_list: bool
) -> None:
    monkeypatch.setenv("FIRSTFLIGHT_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("FIRSTFLIGHT_SITE", str(tmp_path))
    shutil.copy(SITE / "vantage_points.toml", tmp_path)
    (tmp_path / "names.txt").write_bytes(names)
    (tmp_path / "rib").write_bytes(b"")
    (tmp_path / "downloads.toml").write_text(
        '[targets]\nsource = "file"\nfile = "names.txt"\n[as_data]\nrib = "file"\nfiles = ["rib"]\n'
        '[probe]\nallow_net = ["198.18.0.0/15"]\n'
    )
    environment = airflow_environment(tmp_path / "home") | {"FIRSTFLIGHT_SITE": str(tmp_path)}
    words = [sys.executable, "-c", _OPEN]
    ended = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert ("failed: stage targets" in ended.stdout) is not is_list, ended.stdout
    (run,) = Run.all()
    assert run.manifest["dag_run"] == "scheduled__1" and run.manifest["kind"] == "crawl"
    assert run.manifest["state"] == ("running" if is_list else "failed")
    assert pending_uploads.clean(0, []) == ([] if is_list else [run.id])
