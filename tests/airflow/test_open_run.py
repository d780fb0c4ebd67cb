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

# The settings of the runs that other DAGs create. Lists and tables are not needed for them.
import os
from orchestration.airflow.open_run import OpenDownloads, OpenScan, OpenSurvey
from firstflight.run.run import Run
os.environ["FIRSTFLIGHT_RUNS"] += "_of_others"
class Created:
    def newest(self, context):
        return {"targets": {"date": context["day"]}}
    def fetch_list(self, context, run):
        pass
    def offer(self, context, run, taken, **more):
        return run.id
params = {"repetitions": 1, "repetition_interval_minutes": 1440, "rate": None, "families": [4],
    "scan_networks": "weekly", "vantage_points": ["hamburg"]}
for kind in (OpenScan, OpenSurvey, OpenDownloads):
    task = type("Created" + kind.__name__, (Created, kind), {})(task_id="open", inputs={})
    task.assets = {"targets": None}
    for day in ("2026-11-23", "2026-11-24"):
        run = task.execute(context | {"params": params, "day": day})
        print("scans:", kind.__name__, day, Run.with_id(run).settings.scan.enabled)
"""
_SCAN = '[scan]\nenabled = true\nnetworks = ["198.18.48.0/24"]\nownership = "ours"\n'


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
        f'[probe]\nallow_net = ["198.18.0.0/15"]\n{_SCAN}'
    )
    shutil.copy(tmp_path / "downloads.toml", tmp_path / "site.toml")
    environment = airflow_environment(tmp_path / "home") | {"FIRSTFLIGHT_SITE": str(tmp_path)}
    words = [sys.executable, "-c", _OPEN]
    ended = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert ("failed: stage targets" in ended.stdout) is not is_list, ended.stdout
    scans = [line.removeprefix("scans: ") for line in ended.stdout.splitlines() if line.startswith("scans: ")]
    # 2026-11-23 is a Monday. Only scans of names scan networks, by default with Monday's list.
    assert scans == ["OpenScan 2026-11-23 True", "OpenScan 2026-11-24 False"] + [
        f"{kind} {day} False"
        for kind in ("OpenSurvey", "OpenDownloads")
        for day in ("2026-11-23", "2026-11-24")
    ]
    (run,) = Run.all()
    assert run.manifest["dag_run"] == "scheduled__1" and run.manifest["kind"] == "crawl"
    assert run.manifest["state"] == ("running" if is_list else "failed")
    assert pending_uploads.clean(0, []) == ([] if is_list else [run.id])
