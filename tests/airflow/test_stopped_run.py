"""A scheduled run is stopped at the centre: its vantage points are notified over the real interface."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest

from firstflight.egress import lab
from firstflight.run.run import Run
from orchestration.runner import EXIT_INTERRUPTED
from orchestration.site import inputs, outcome, pending_uploads, site, vantage_points
from store import open_store
from tests.airflow.conftest import airflow_environment
from tests.airflow.test_inputs import SECRET, serving, token_for
from tests.campaign_loopback.conftest import world as world
from tests.campaign_loopback.stopping import halted
from tests.campaign_loopback.world import FIRSTFLIGHT, CampaignWorld, addresses
from tests.processes import go_on_when_interrupted
from tests.waiting import PATIENCE_S, until

POINTS = '[[vantage]]\nname = "east"\ncity = "Here"\nqueue = "east"\ninterface = "lo"\nscan_rate = 8\n'


def firstflight(*words: str) -> str:
    """Run a command; return the messages."""
    done = subprocess.run(
        [*FIRSTFLIGHT, *words], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


def listed(run: str) -> tuple[str, int]:
    """Return the state and number of probes that `firstflight runs` prints."""
    words = [*FIRSTFLIGHT, "runs", "--format", "jsonl", run]
    entry = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    return entry["state"], entry["probes"]


# The tasks for a vantage point, one after the other, without Airflow's scheduler.
_TASKS = """
import json, sys, types
from airflow.sdk.exceptions import AirflowSkipException
from orchestration.airflow.stage_operators import StageOperator
in_order = [("probe", 1), ("handshake", 1), ("calibrate", 1), ("dissect", 1), ("load", 1)]
for stage, repetition in [*in_order, ("probe", 2), ("dissect", 2)]:
    task = StageOperator(task_id=stage, stage=stage, vantage="east", run=sys.argv[1], repetition=repetition)
    try:
        gave = task.execute({"ti": types.SimpleNamespace(hostname="east")})
    except AirflowSkipException as skipped:
        gave = f"skipped: {skipped}"
    print(json.dumps([f"{stage} {repetition}", gave]), flush=True)
"""


@pytest.fixture(autouse=True)
def in_the_lab(world: CampaignWorld, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Mark this namespace as the lab's: elsewhere a centre may set no other port of resolvers than 53."""
    ceilings = world.folder / "ceilings.toml"
    ceilings.write_text('networks = ["127.0.0.0/8"]\n')
    monkeypatch.setenv("FIRSTFLIGHT_CEILINGS", str(ceilings))
    mark = ["ip", "link", "set", "lo", "alias"]
    subprocess.run([*mark, lab.MARK], check=True)
    yield
    subprocess.run([*mark, ""], check=True)


@pytest.fixture
def centre_run(world: CampaignWorld, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run at the centre with published inputs, as the task `open` leaves it."""
    folder = world.folder
    (folder / "vantage_points.toml").write_text(POINTS)
    text = world.settings("site.toml", vantages="").read_text().replace("before_repetition", "# none")
    (folder / "site.toml").write_text(f"{text}\n[handshake]\nenabled = true\n[calibrate]\nenabled = true\n")
    monkeypatch.setenv("FIRSTFLIGHT_SITE", str(folder))
    monkeypatch.setenv("FIRSTFLIGHT_RUNS", str(folder / "centre"))
    monkeypatch.setenv("FIRSTFLIGHT_STORE", f"chdb:{folder}/store")
    run = site.new_run(date(2026, 11, 20), vantage_points.load(folder / "vantage_points.toml").vantage)
    firstflight("stage", "targets", "as_data", "--run", run.id)
    run.write_manifest({**run.manifest, "dag_run": "manual__2026-11-20", "vantage_points": ["east"]})
    inputs.publish(run)
    return run


@pytest.fixture
def centre(world: CampaignWorld, centre_run: Run) -> Iterator[str]:
    """The centre's URL."""
    del centre_run
    with serving(world.folder) as url:
        yield url


def test_a_stopped_run_ends_everywhere_and_its_rows_are_loaded(
    world: CampaignWorld, centre: str, centre_run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIRSTFLIGHT_RUNS", str(world.folder / "pending"))
    east = vantage_points.load(world.folder / "vantage_points.toml").named("east")
    run = inputs.fetch(centre_run.id, east, centre, token_for(centre_run.id))
    place = ("--run", run.id, "--vantage", "east", "--repetition", "1")
    firstflight("stage", "resolve", *place)

    words = [sys.executable, "-c", _TASKS, run.id]
    environment = airflow_environment(world.folder / "home") | {
        "FIRSTFLIGHT_RUNS": str(world.folder / "pending"),
        "FIRSTFLIGHT_SITE": str(world.folder),
        "AIRFLOW__EDGE__API_URL": f"{centre}/edge_worker/v1/rpcapi",
        "AIRFLOW__API_AUTH__JWT_SECRET": SECRET,
    }
    tasks = subprocess.Popen(
        words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    probe = run.layout.stage("probe", run.key("east", 1))
    segments = probe / "segments"
    until(lambda: tasks.poll() is not None or len(list(segments.glob("seg-*.arrow"))) >= 2, "some segments")
    # Otherwise the engine may send all probes before it sees the stop.
    engine = halted(probe)
    with monkeypatch.context() as at_centre:
        at_centre.setenv("FIRSTFLIGHT_RUNS", str(world.folder / "centre"))
        assert "its vantage points stop within seconds" in firstflight("runs", "stop", run.id)
    go_on_when_interrupted([engine])
    printed, messages = tasks.communicate(timeout=PATIENCE_S)
    assert tasks.returncode == 0, messages
    steps = [json.loads(line) for line in printed.splitlines() if line.startswith("[")]
    first = [f"{stage} 1" for stage in ("probe", "handshake", "calibrate", "dissect", "load")]
    assert [task for task, _ in steps] == [*first, "probe 2", "dissect 2"]
    ended = run.report("probe", run.key("east", 1))
    assert ended is not None and ended.ended_at is not None and ended.state == "interrupted"
    assert run.layout.stop_file.exists()

    rows = len(world.rows(Path(run.path), "east", 1))
    assert 0 < rows < len(addresses())
    given = dict(steps)
    assert given["probe 1"]["rows"] == given["load 1"]["quic_probe"] == rows
    assert given["handshake 1"] == given["calibrate 1"] == {}, "a skip would be that of dissect and load, too"
    assert given["dissect 1"]["rows"] > 0
    assert given["probe 2"] == f"skipped: run {run.id} is stopped: nothing was sent"
    assert given["dissect 2"] == {"rows": 0}, "a repetition without a capture"
    assert [part.loaded for part in pending_uploads.uploads([])] == [True]
    with open_store() as store:
        assert store.rows(f"SELECT count() AS n FROM quic_probe WHERE run = '{run.id}'") == [{"n": rows}]
    with monkeypatch.context() as at_centre:
        at_centre.setenv("FIRSTFLIGHT_RUNS", str(world.folder / "centre"))
        assert listed(run.id) == ("running", 0)
    found = outcome.of(centre_run)
    assert found.rows == {"east": rows} and found.missing == []
    outcome.write(centre_run, found)
    assert centre_run.manifest["state"] == "stopped" and outcome.is_written(centre_run, found)

    with monkeypatch.context() as at_centre:
        at_centre.setenv("FIRSTFLIGHT_RUNS", str(world.folder / "centre"))
        assert listed(run.id) == ("stopped", rows)

    # Permanently: another try sends nothing either.
    refused = [*FIRSTFLIGHT, "stage", "probe", *place]
    assert subprocess.run(refused, capture_output=True, check=False).returncode == EXIT_INTERRUPTED


def test_an_unavailable_centre_stops_no_run(
    world: CampaignWorld, centre_run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIRSTFLIGHT_RUNS", str(world.folder / "pending"))
    run = Run(world.folder / "pending" / centre_run.id)
    assert not inputs.is_stopped(run, "http://127.0.0.1:9", token_for(run.id))
    # A stop file at the vantage point stops the run there, whatever the centre answers.
    run.path.mkdir(parents=True, exist_ok=True)
    run.layout.stop_file.touch()
    assert inputs.is_stopped(run, "http://127.0.0.1:9", token_for(run.id))
