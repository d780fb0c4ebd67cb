"""A manual `firstflight stage` runs where the settings require, because rows name their vantage point."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from firstflight import settings
from firstflight.run.run import Run
from firstflight.system import files
from tests import minimal

FIRSTFLIGHT = str(Path(sys.executable).with_name("firstflight"))


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run with an unreachable vantage point. Its centre is reached with a command that logs its use."""
    monkeypatch.setenv("FIRSTFLIGHT_RUNS", str(tmp_path / "runs"))
    config = minimal.write(tmp_path)
    went = f'echo "$@" >> {tmp_path}/went; exec "$@"'
    behind = f"[centre]\ncommand = ['sh', '-c', '{went}', 'sh']\n"
    config.write_text(minimal.CONFIG + "command = ['sh', '-c', 'echo no way there >&2; exit 7']\n" + behind)
    in_force, text = settings.load(config)
    return Run.create(in_force, text)


def stage(run: Run, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [FIRSTFLIGHT, "stage", *arguments, "--run", run.id], capture_output=True, text=True, check=False
    )


def test_the_centre_fetches_through_its_command(run: Run, tmp_path: Path) -> None:
    done = stage(run, "targets")
    assert done.returncode == 0, done.stderr
    assert run.done("targets")
    (line,) = (tmp_path / "went").read_text().splitlines()
    assert line.endswith(f"stage targets --run {run.path} --here")

    done = stage(run, "targets", "--again", "--here")
    assert done.returncode == 0, done.stderr
    assert len((tmp_path / "went").read_text().splitlines()) == 1


def test_wrong_options_are_refused_before_the_first_stage(run: Run) -> None:
    place = ("--vantage", "here", "--repetition", "1", "--here")
    for wrong in [("targets", "watch", *place, "--start", "soon"), ("targets", "probe")]:
        done = stage(run, *wrong)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
        assert run.report("targets") is None


@pytest.mark.parametrize("name", ["resolve", "probe", "watch"])
def test_packets_are_sent_only_from_the_vantage_point(run: Run, name: str) -> None:
    sent = stage(run, name, "--vantage", "here", "--repetition", "1")
    assert (sent.returncode, sent.stderr) == (7, "no way there\n")
    assert not run.layout.stage(name, run.key("here", 1)).exists()


@pytest.mark.parametrize("here", [None, "other"])
def test_a_run_of_a_schedule_measures_only_at_its_vantage_point(run: Run, here: str | None) -> None:
    stored = files.read_json(run.path / "settings.json")
    stored["vantage"][0]["command"] = []
    files.write_json(run.path / "settings.json", stored)
    run.write_manifest({**run.manifest, "dag_run": "a", **({} if here is None else {"vantage": here})})
    run.layout.stop_file.touch()
    for words in [
        ("stage", "probe", "--run", run.id, "--vantage", "here", "--repetition", "1"),
        ("campaign", "run", "--resume", run.id),
    ]:
        done = subprocess.run([FIRSTFLIGHT, *words], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
        assert f"run {run.id} was started by Airflow" in done.stderr
    assert run.layout.stop_file.exists() and run.report("probe", run.key("here", 1)) is None
    assert run.report("targets") is None and "message" not in run.manifest


@pytest.mark.parametrize("way", ["exit 7", "true"], ids=["fails", "does nothing"])
def test_again_is_not_done_by_what_an_earlier_try_left(run: Run, way: str) -> None:
    """The command exits before the stage starts, while the old report still has the state `done`."""
    assert stage(run, "targets").returncode == 0
    old = run.report("targets")
    stored = files.read_json(run.path / "settings.json")
    stored["centre"]["command"] = ["sh", "-c", f"echo no way there >&2; {way}"]
    files.write_json(run.path / "settings.json", stored)

    again = stage(run, "targets", "--again")
    assert again.returncode == (7 if way == "exit 7" else 1), again.stderr
    assert again.stderr.startswith("no way there\n")
    if way == "true":
        assert "stage targets did not run: sh -c echo no way there >&2; true ended" in again.stderr
    assert Run(run.path).report("targets") == old and run.done("targets")

    left_alone = stage(run, "targets")
    assert (left_alone.returncode, left_alone.stderr) == (0, "targets: already done\n")


def test_a_stage_whose_command_does_nothing_did_not_run(run: Run) -> None:
    stored = files.read_json(run.path / "settings.json")
    stored["centre"]["command"] = ["true"]
    files.write_json(run.path / "settings.json", stored)
    done = stage(run, "as_data")
    assert done.returncode == 1 and "stage as_data did not run: true ended without an error" in done.stderr


def test_the_vantage_point_itself_does_not_go_round_again(run: Run) -> None:
    refused = stage(run, "probe", "--vantage", "here", "--repetition", "1", "--here")
    assert refused.returncode == 3 and "run the resolve stage of here first" in refused.stderr
