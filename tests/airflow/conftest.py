"""Real Airflow in separate processes, because it reads its configuration at import."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TREE = Path(__file__).resolve().parents[2]
SITE = TREE / "lab" / "site"


def airflow_environment(home: Path, site: Path = SITE) -> dict[str, str]:
    """Return the environment of an isolated Airflow without a database, for the vantage points in `site`."""
    return {
        **os.environ,
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": "sqlite:////nowhere/airflow.db",
        "AIRFLOW__CORE__DAGS_FOLDER": str(TREE / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor,airflow.providers.edge3.executors.EdgeExecutor",
        "FIRSTFLIGHT_SITE": str(site),
    }


# Parses all DAG files as the dag-processor does, and reports the result and the cost.
_PARSE = """
import json, sys, time, warnings
import airflow
from airflow.sdk import DAG, Asset, BaseOperator, Param, TaskGroup, TriggerRule, task, task_group
from airflow.dag_processing.dagbag import DagBag
imported = time.process_time()
with warnings.catch_warnings(record=True) as warned:
    warnings.simplefilter("always")
    bag = DagBag(sys.argv[1])
cost = time.process_time() - imported
heavy = sorted(m for m in ("pyarrow", "chdb", "clickhouse_driver", "requests", "pandas") if m in sys.modules)
def of(task):
    return {"task_id": task.task_id, "queue": task.queue, "executor": task.executor, "pool": task.pool,
        "retries": task.retries, "backoff": bool(task.retry_exponential_backoff),
        "delay_s": task.retry_delay.total_seconds(), "most_s": task.max_retry_delay.total_seconds(),
        "shard": getattr(task, "shard", None),
        "assets": sorted(outlet.name for outlet in task.outlets),
        "upstream": sorted(task.upstream_task_ids),
        "trigger_rule": task.trigger_rule.value}
def awaits(timetable):
    found = getattr(timetable, "asset_condition", None)
    return sorted(asset.name for asset in found.objects) if found else []
print(json.dumps({"cost_s": cost, "import_s": imported, "errors": bag.import_errors, "heavy": heavy,
    "warnings": [str(w.message) for w in warned if "airflow" in str(w.filename) or "dags" in str(w.filename)],
    "dags": {d.dag_id: {"doc": d.doc_md, "description": d.description, "params": {k: p.schema for k, p in
        ((k, d.params.get_param(k)) for k in d.params)},
        "defaults": {k: d.params[k] for k in d.params}, "catchup": d.catchup,
        "paused": d.is_paused_upon_creation,
        "timetable": type(d.timetable).__name__, "awaits": awaits(d.timetable),
        "max_active_runs": d.max_active_runs,
        "max_active_tasks": d.max_active_tasks,
        "timeout_s": d.dagrun_timeout.total_seconds() if d.dagrun_timeout else None,
        "tasks": [of(t) for t in d.tasks]} for d in bag.dags.values()}}))
"""


@pytest.fixture(scope="session")
def parsed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """All DAGs as Airflow loads them: errors, cost, and each DAG's tasks and parameters."""
    return parse_dags(tmp_path_factory.mktemp("airflow"), SITE)


def parse_dags(home: Path, site: Path, dags: Path = TREE / "dags") -> dict[str, Any]:
    """Load all DAGs for the vantage points in a site's folder, as the fixture `parsed`."""
    done = subprocess.run(
        [sys.executable, "-c", _PARSE, str(dags)],
        env=airflow_environment(home, site),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    found["stderr"] = done.stderr
    assert isinstance(found, dict)
    return found
