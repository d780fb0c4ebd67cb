"""Names from other machines, in every function that builds a path from a name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from firstflight import capture_files, settings
from firstflight.errors import FirstflightError, InputError, UsageError
from firstflight.run.run import Run
from firstflight.system import path_names
from firstflight.system.path_names import UnsafeName
from orchestration.site import pending_uploads, site
from reports import trace
from tests import minimal

PATHS = [
    "../x",
    "/etc/x",
    "a/../../x",
    ".",
    "..",
    "",
    "a//b",
    "a\\b",
    "a\0b",
    "a\nb",
    "\x1b[2J",
    "\ud800",
]
RUN_IDS = [*PATHS, "20261120T063905Z-a1b2c3/..", "\u0662" * 8 + "T063905Z-a1b2c3", "20261120T063905Z-A1B2C3"]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("FIRSTFLIGHT_RUNS", str(tmp_path / "runs"))
    return Run.create(*settings.load(minimal.write(tmp_path)))


@pytest.mark.parametrize("name", PATHS, ids=ascii)
def test_no_path_within_a_folder(name: str, tmp_path: Path) -> None:
    with pytest.raises(UnsafeName) as refused:
        path_names.inside(tmp_path, name)
    assert str(refused.value).isprintable()


def test_links_are_followed_within_the_folder_alone(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    (folder / "deep").mkdir(parents=True)
    (folder / "within").symlink_to("deep")
    (folder / "out").symlink_to(tmp_path)
    (folder / "dangling").symlink_to(tmp_path / "none")
    assert path_names.inside(folder, "within/x") == folder / "within" / "x"
    for name in ("out/x", "out", "dangling", "within/../out/x"):
        with pytest.raises(UnsafeName):
            path_names.inside(folder, name)
    # The folder itself may be a symbolic link, as sites link to their disks.
    (tmp_path / "link").symlink_to(folder)
    assert path_names.inside(tmp_path / "link", "deep/x").parent.is_dir()


@pytest.mark.parametrize("run_id", RUN_IDS, ids=ascii)
def test_a_run_id_of_an_event_is_no_path(run: Run, run_id: str) -> None:
    assert Run.with_id(run.id).path == run.path
    with pytest.raises(UsageError):
        Run.with_id(run_id)


@pytest.mark.parametrize("file", [*PATHS, "deeper/probe.pcap", 7, None], ids=ascii)
def test_capture_json_names_captures_of_its_folder(tmp_path: Path, file: object) -> None:
    entry = {"file": file, "interface": "lo", "filter": "", "snaplen": 1, "started_ns": 1}
    (tmp_path / "capture.json").write_text(json.dumps({"captures": [{**entry, "file": "probe.pcap"}]}))
    assert [record.file for record in capture_files.records(tmp_path)] == ["probe.pcap"]
    (tmp_path / "capture.json").write_text(json.dumps({"captures": [entry]}))
    with pytest.raises(InputError, match="is not a list of captures") as refused:
        capture_files.records(tmp_path)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", ["RUN/../../../etc/x", "RUN//etc/x", "RUN", "/etc/x", "RUN/a\0b"])
def test_a_row_names_captures_of_its_run(run: Run, name: str) -> None:
    row = {"capture_file": name, "client_cid": "00"}
    with pytest.raises(FirstflightError):
        trace._with_packets(run, row, run.path)


@pytest.mark.parametrize(
    "change",
    [
        {"vantage": "../../elsewhere", "repetition": 1},
        {"vantage": "there", "repetition": 2},
        {"repetition": None},
        {"stage": "../probe"},
        {"outputs": {"../x": ""}},
        {"outputs": {"/etc/x": ""}},
        {"state": 7},
    ],
)
def test_a_report_of_another_folder_is_refused(run: Run, change: dict[str, object]) -> None:
    with run.stage("probe", run.key("here", 1)):
        pass
    path = run.layout.report("probe", run.key("here", 1))
    assert run.done("probe", run.key("here", 1)) and len(run.reports()) == 1
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))

    def waits() -> None:
        broken: list[pending_uploads.BrokenRun] = []
        assert not list(pending_uploads.uploads(broken))
        (fault,) = broken
        raise fault

    for ask in (
        run.reports,
        lambda: run.report("probe", run.key("here", 1)),
        waits,
    ):
        with pytest.raises(InputError, match=r"report") as refused:
            ask()
        assert "\n" not in str(refused.value)


def test_an_output_that_is_a_link_is_not_taken_from_another_run(run: Run, tmp_path: Path) -> None:
    other = Run.create(*settings.load(minimal.write(tmp_path)))
    (tmp_path / "secret").write_text("s")
    with other.stage("targets") as report:
        (other.path / "targets" / "link").symlink_to(tmp_path / "secret")
        report.outputs["targets/link"] = "0" * 64
    with pytest.raises(UnsafeName, match="leads out of"):
        site.take_stage(run, "targets", other)
