"""Run folders: reports, locks, states."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cli.shared import run_name
from firstflight import settings
from firstflight.errors import FirstflightError, InputError, UsageError
from firstflight.run.provenance import ruleset_hash
from firstflight.run.run import RUN_ID, Run, runs_root
from firstflight.system import files
from tests import minimal


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("FIRSTFLIGHT_RUNS", str(tmp_path / "runs"))
    in_force, text = settings.load(minimal.write(tmp_path), ["probe.rate=7"])
    return Run.create(in_force, text, ["probe.rate=7"])


def test_a_new_run_stores_its_settings_as_given_and_in_force(run: Run) -> None:
    assert RUN_ID.fullmatch(run.id)
    assert (run.path / "config.toml").read_text() == minimal.CONFIG
    again = Run.open(run.id)
    assert again.settings == run.settings
    assert again.settings.probe.rate == 7
    assert again.manifest["overrides"] == ["probe.rate=7"]
    assert [r.id for r in Run.all()] == [run.id]
    assert runs_root() == run.path.parent


@pytest.mark.usefixtures("run")
def test_an_unknown_run_is_one_sentence() -> None:
    with pytest.raises(UsageError, match=r"^there is no run nothing in "):
        Run.open("nothing")


def test_newest_is_the_newest_run_with_the_records(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    later = Run.create(run.settings, minimal.CONFIG)
    first, last = sorted((run, later), key=lambda each_run: each_run.id)  # both may start in the same second
    assert Run.open("newest").id == last.id
    files.write_text(first.layout.quic_probe(first.key("here", 1)), "")
    assert run_name.opened("newest", "quic_probe").id == first.id
    assert run_name.opened("newest").id == last.id
    assert run_name.opened(first.id).id == first.id
    assert capsys.readouterr().err.splitlines() == [
        f"run {first.id}, the only run with quic_probe",
        f"run {last.id}, the newest of 2 runs",
    ]
    with pytest.raises(UsageError, match=r"^there is no run with download\.parquet in "):
        run_name.opened("newest", "download")
    with pytest.raises(UsageError, match=rf"; did you mean {first.id}"):
        Run.open(first.id[:-1])


def test_a_stage_reports_how_it_ended(run: Run) -> None:
    out = run.layout.targets
    with run.stage("targets") as report:
        files.write_text(out, "x")
        report.rows_out = 1
        run.add_output(report, out)
    assert run.done("targets")
    out.unlink()
    assert not run.done("targets"), "its output is missing"

    with pytest.raises(FirstflightError), run.stage("as_data"):
        raise FirstflightError("the table is broken")
    failed = run.report("as_data")
    assert failed is not None and (failed.state, failed.message) == ("failed", "the table is broken")
    assert not run.done("as_data")

    with pytest.raises(KeyboardInterrupt), run.stage("probe", run.key("here", 1)):
        raise KeyboardInterrupt
    cut = run.report("probe", run.key("here", 1))
    assert cut is not None and cut.state == "interrupted"
    assert [r.stage for r in run.reports()] == ["targets", "as_data", "probe"]


def test_a_folder_of_a_run_may_be_a_link_to_another_disk(run: Run, tmp_path: Path) -> None:
    with run.stage("targets") as report:
        files.write_text(run.layout.targets, "x")
        run.add_output(report, run.layout.targets)
    run.layout.targets.parent.rename(tmp_path / "other_disk")
    run.layout.targets.parent.symlink_to(tmp_path / "other_disk")
    assert run.done("targets")


def test_a_copy_of_a_stage_is_none_of_the_runs(run: Run) -> None:
    with run.stage("probe", run.key("here", 1)):
        pass
    stage = run.layout.stage("probe", run.key("here", 1))
    shutil.copytree(stage.parent, stage.parent.with_name("1.old"))
    assert [(r.stage, r.repetition) for r in run.reports()] == [("probe", 1)]
    # As a report of another stage, this is an error that must be reported.
    shutil.copytree(stage, run.layout.stage("probe", run.key("here", 2)))
    with pytest.raises(InputError, match="report of another stage"):
        run.report("probe", run.key("here", 2))


def test_two_holders_of_a_lock_are_refused_and_a_dead_one_is_not(run: Run) -> None:
    program = (
        "import sys, time\nfrom pathlib import Path\nfrom firstflight.run.run import Run\n"
        "with Run(Path(sys.argv[1])).lock():\n print('held', flush=True)\n time.sleep(60)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(run.path)], stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        assert run.is_locked()
        with pytest.raises(UsageError, match=f"in use by process {holder.pid}"), run.lock():
            pass
        holder.kill()
    assert not run.is_locked()
    with run.lock():
        assert run.is_locked()


def test_files_are_complete_or_absent(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "value.json"
    files.write_json(path, {"a": 1})
    with pytest.raises(RuntimeError), files.replacing(path) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert files.read_json(path) == {"a": 1}
    assert list(path.parent.iterdir()) == [path]


def test_a_full_disk_is_one_sentence() -> None:
    full = Path("/dev/full")
    with (
        pytest.raises(FirstflightError, match=r"^the disk that holds /dev/full is full"),
        files.explain_os_errors(full),
        full.open("w") as file,
    ):
        file.write("x" * 100_000)


def test_ruleset_hash_is_of_content_and_order(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    a.write_text("1")
    b.write_text("2")
    assert ruleset_hash([a, b]) != ruleset_hash([b, a])
    before = ruleset_hash([a, b])
    b.write_text("3")
    assert ruleset_hash([a, b]) != before
