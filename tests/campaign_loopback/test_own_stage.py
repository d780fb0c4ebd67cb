"""A new stage only needs an entry in the table of stages; command line, campaign and schedule then run it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.campaign_loopback.world import FIRSTFLIGHT, ROOT, CampaignWorld

PACKAGES = [
    *("cli", "crawler", "dags", "dissector", "downloader", "firstflight", "lab"),
    *("orchestration", "reports", "scanner", "schemas", "store"),
]
ENTRY = '    Stage("tally", "tally", Scope.KEY, SCAN, kinds=()),\n'
# The stage counts the rows of the probe stage with the same key.
MODULE = """
import pyarrow.parquet as pq
from firstflight.system import files

def stage(run, key):
    with run.stage("tally", key) as report:
        rows = pq.ParquetFile(run.layout.quic_probe(key)).metadata.num_rows
        out = run.layout.stage("tally", key) / "tally.json"
        files.write_json(out, {**key.columns(), "rows": rows})
        report.rows_in = report.rows_out = rows
        run.add_output(report, out)
"""
TASKS = """
import json, sys, types
from airflow.sdk import DAG, Asset
from orchestration.airflow.stage_operators import stage_tasks
from orchestration.stages import RunPlan
with DAG("own", schedule=None):
    place = {"vantage": "east", "run": sys.argv[1], "repetition": 1}
    tasks = stage_tasks(RunPlan.SCAN, place, {"pool": "scan_east"}, rows=Asset("rows"))
names = [task.task_id for task in tasks]
(own,) = [task for task in tasks if task.task_id == "tally"]
gave = own.execute({"ti": types.SimpleNamespace(hostname="east")})
(off,) = [task for task in tasks if task.task_id == "handshake"]
print(json.dumps([names, own.pool, gave, off.execute({})]))
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the software with one more entry in the table of stages."""
    copy = tmp_path_factory.mktemp("tree")
    for name in PACKAGES:
        shutil.copytree(
            ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__", "*.rs", "native")
        )
    table = copy / "orchestration" / "stages.py"
    before, load, after = table.read_text().partition('    Stage("load"')
    table.write_text(before + ENTRY + load + after)
    (copy / "tally.py").write_text(MODULE)
    (copy / "target").symlink_to(ROOT / "target")
    return copy


@pytest.fixture(scope="module")
def environment(tree: Path, world: CampaignWorld) -> dict[str, str]:
    """The world's environment, with the copy in place of the software."""
    return {**world.environment, "PYTHONPATH": str(tree)}


@pytest.fixture(scope="module")
def run(world: CampaignWorld, environment: dict[str, str]) -> Path:
    """A campaign of the changed software."""
    done = subprocess.run(
        [*FIRSTFLIGHT, "campaign", "run", "--config", str(world.settings()), "--repetitions", "1"],
        capture_output=True,
        text=True,
        env=environment,
        cwd=world.folder,
    )
    assert done.returncode == 0, done.stderr
    return world.folder / "runs" / done.stdout.splitlines()[-1]


def tally(run: Path, vantage: str) -> Path:
    return run / vantage / "1" / "tally" / "tally.json"


def test_a_campaign_runs_it_at_every_vantage_point_after_the_probe(run: Path, world: CampaignWorld) -> None:
    for vantage in ("east", "west"):
        found = json.loads(tally(run, vantage).read_text())
        rows = len(world.rows(run, vantage, 1))
        assert rows > 0
        assert found == {"run": run.name, "vantage": vantage, "repetition": 1, "rows": rows}
    entries = json.loads((run / "manifest.json").read_text())["stages"]
    assert [entry["state"] for entry in entries if entry["stage"] == "tally"] == ["done", "done"]


def test_the_command_line_knows_it(run: Path, environment: dict[str, str]) -> None:
    tally(run, "west").unlink()
    argv = [*FIRSTFLIGHT, "stage", "tally", "--run", run.name, "--vantage", "west", "--repetition", "1"]
    done = subprocess.run(argv, capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert tally(run, "west").is_file()


def test_the_dry_run_names_it(run: Path, environment: dict[str, str]) -> None:
    tally(run, "west").unlink()
    argv = [*FIRSTFLIGHT, "campaign", "run", "--resume", run.name, "--dry-run"]
    done = subprocess.run(argv, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert "to do: west, repetition 1: tally\n" in done.stdout


def test_a_schedule_has_a_task_for_it_that_runs_it(
    run: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    """Between the stage that it reads from and the load, as the DAGs build their tasks, with real Airflow."""
    tally(run, "east").unlink()
    done = subprocess.run(
        [sys.executable, "-P", "-c", TASKS, run.name],
        capture_output=True,
        text=True,
        env={**os.environ, **environment, "AIRFLOW_HOME": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    names, pool, gave, off = json.loads(done.stdout.splitlines()[-1])
    measure = ["resolve", "scan", "probe", "handshake", "calibrate"]
    assert names == [*measure, "dissect", "tally", "load"]
    assert pool == "default_pool"  # it sends nothing
    assert gave["rows"] > 0 and tally(run, "east").is_file()
    assert off == {"rows": 0}, "the settings do not enable it"
    assert not (run / "east" / "1" / "handshake").exists()
