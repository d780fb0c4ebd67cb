"""The table of stages against what it names, and the layout of a run."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import pytest

from cli.stage import command
from firstflight import settings
from firstflight.layout import OWN_NAMES, RunLayout, StageKey
from firstflight.run.run import Run
from firstflight.system import files
from orchestration import stages
from orchestration.local import preview
from orchestration.stages import Plan, Scope, Stage
from schemas import records
from tests import minimal

RUN = "20261120T063905Z-a1b2c3"
KEY = StageKey(RUN, "hamburg", 2)


@pytest.mark.parametrize("stage", stages.STAGES, ids=stages.names())
def test_the_entry_takes_what_the_scope_says(stage: Stage) -> None:
    parameters = list(inspect.signature(stage.function()).parameters.values())
    positional = [one for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]
    required = [one.name for one in positional if one.default is one.empty]
    assert required == (["run", "key"] if stage.scope is Scope.KEY else ["run"])
    assert (len(positional) == 2) == (stage.scope is not Scope.RUN)
    assert stage.timed == ("start_ns" in {one.name for one in parameters})


def test_help_names_all_stages() -> None:
    assert set(stages.names()) <= set(re.findall(r"[a-z_]+", str(command.callback.__doc__)))


def test_a_dry_run_announces_all_that_is_sent(tmp_path: Path) -> None:
    announced = {
        "resolve": "here: at most 500 probes per second, 200 queries per second",
        "probe": "probes: ",
        "handshake": "handshakes: with ",
        "calibrate": "pairs of a probe and a handshake: with ",
        "tcp_options": "TCP options: with 100 % of the names, at most 1, a TCP connection to port 443 each; "
        "at most 100 per second and vantage point",
        "download": "downloads: ",
    }
    sending = stages.at_vantage(Plan.SCAN)
    assert set(announced) == set(stages.names(sending))
    enabled = [f"{stage.enabled_by}.enabled=true" for stage in sending if stage.enabled_by]
    path = minimal.write(tmp_path)
    for changes in ([], enabled):
        in_force, _ = settings.load(path, ["resolve.resolver=192.0.2.1", *changes])
        lines = list(preview.describe(in_force))
        for stage in sending:
            shown = any(line.startswith(announced[stage.name]) for line in lines)
            assert shown == stage.is_enabled(in_force), stage.name


def test_what_stages_write_is_what_the_loader_loads() -> None:
    """But for kinds that another module writes: each names it, and it says the same."""
    written = {kind for stage in stages.STAGES for kind in stage.kinds}
    stored = {name for name in records.stored_names() if records.load(name).file_columns}
    others = {name: writer for name in stored if (writer := records.load(name).writer) is not None}
    assert written == stored - set(others)
    assert {name: importlib.import_module(writer).KIND for name, writer in others.items()} == {
        name: name for name in others
    }


def test_no_vantage_point_can_share_the_folder_of_a_stage_of_the_run() -> None:
    of_run = {stage.name for stage in stages.STAGES if stage.scope is not Scope.KEY}
    assert of_run <= OWN_NAMES


@pytest.mark.parametrize(
    ("plan", "enabled", "sending", "later"),
    [
        (
            Plan.SCAN,
            None,
            ["resolve", "probe", "handshake", "calibrate", "tcp_options", "download"],
            ["dissect"],
        ),
        (Plan.SCAN, {"capture": False, "tcp_options": True}, ["resolve", "probe", "tcp_options"], []),
        (Plan.SCAN, {"capture": False, "download": True}, ["resolve", "probe", "download"], []),
        (Plan.SCAN, {"capture": True, "handshake": True}, ["resolve", "probe", "handshake"], ["dissect"]),
        (Plan.SCAN, {"capture": True, "handshake": False}, ["resolve", "probe"], ["dissect"]),
        (Plan.SCAN, {"capture": True, "calibrate": True}, ["resolve", "probe", "calibrate"], ["dissect"]),
        (Plan.SCAN, {"capture": False, "handshake": True}, ["resolve", "probe", "handshake"], []),
        (Plan.WATCH, {"capture": True, "handshake": True}, ["watch"], ["dissect"]),
        (Plan.DOWNLOADS, {"capture": True, "download": True}, ["resolve", "download"], []),
        (Plan.SURVEY, {"capture": True, "tcp_options": True}, ["resolve", "tcp_options"], []),
    ],
)
def test_the_order_of_a_plan(
    tmp_path: Path, plan: Plan, enabled: dict[str, bool] | None, sending: list[str], later: list[str]
) -> None:
    minimal.write(tmp_path)
    overrides = [f"{section}.enabled={str(on).lower()}" for section, on in (enabled or {}).items()]
    found = None if enabled is None else settings.load(tmp_path / "c.toml", overrides)[0]
    assert stages.names(stages.at_vantage(plan, found)) == sending
    assert stages.names(stages.afterwards(plan, found)) == later
    assert stages.names(stages.measuring(plan, found)) == [n for n in sending if n != "resolve"]
    mains = {Plan.SCAN: "probe", Plan.WATCH: "watch", Plan.SURVEY: "tcp_options"}
    mains[Plan.DOWNLOADS] = "download"
    assert stages.main(plan).name == mains[plan]


@pytest.mark.parametrize(
    ("kind", "plan"),
    [
        (None, Plan.SCAN),
        ("watch", Plan.WATCH),
        ("survey", Plan.SURVEY),
        ("downloads", Plan.DOWNLOADS),
        ("targets", Plan.SCAN),
    ],
)
def test_the_plan_of_a_run_is_its_kind_s(tmp_path: Path, kind: str | None, plan: Plan) -> None:
    files.write_json(tmp_path / "manifest.json", {"id": RUN, **({"kind": kind} if kind else {})})
    assert stages.plan_of(Run(tmp_path)) is plan


def test_what_has_a_schedule_of_its_own_is_on_where_it_is_wanted_alone() -> None:
    sections = [{name: on["enabled"] for name, on in stages.enabling(*w).items()} for w in ((), ("crawl",))]
    assert sections[0] == {"crawl": False, "tcp_options": False, "download": False}
    assert sections[1] == {"crawl": True, "tcp_options": False, "download": False}


def test_what_the_centre_measures_is_no_input(tmp_path: Path) -> None:
    minimal.write(tmp_path)
    on = settings.load(tmp_path / "c.toml", ["crawl.enabled=true"])[0]
    off = settings.load(tmp_path / "c.toml")[0]
    assert stages.names(stages.at_centre()) == ["targets", "as_data"]
    assert stages.names(stages.once()) == ["targets", "as_data", "crawl"]
    assert stages.names(stages.from_centre(Plan.SCAN, on)) == ["crawl"]
    assert stages.from_centre(Plan.SCAN, off) == stages.from_centre(Plan.WATCH, on) == []
    assert "crawl" in on.model_dump() and "crawl" not in off.model_dump()


def test_paths_of_a_key_and_back(tmp_path: Path) -> None:
    layout = RunLayout(tmp_path / RUN)
    folder = tmp_path / RUN / "hamburg" / "2"
    assert layout.stage("probe", KEY) == folder / "probe"
    assert layout.stage("targets") == tmp_path / RUN / "targets"
    assert layout.key_of(layout.dns_answer(KEY)) == KEY
    assert layout.name_of(layout.clock(KEY)) == f"{RUN}/hamburg/2/clock.json"
    with pytest.raises(ValueError, match="belongs to run other"):
        layout.folder(StageKey("other", "hamburg", 2))


def test_reports_that_were_put_aside_are_left_out(tmp_path: Path) -> None:
    layout = RunLayout(tmp_path / RUN)
    found = [layout.report("targets"), layout.report("probe", KEY)]
    aside = layout.root / "hamburg" / "2-old" / "probe" / "report.json"
    for path in [*found, aside]:
        path.parent.mkdir(parents=True)
        path.touch()
    assert sorted(layout.reports()) == sorted(found)


def test_of_a_watched_period_the_watch_has_the_probes(tmp_path: Path) -> None:
    layout = RunLayout(tmp_path / RUN)
    assert layout.quic_probe(KEY) == layout.stage("probe", KEY) / "quic_probe.parquet"
    watched = layout.stage("watch", KEY) / "quic_probe.parquet"
    watched.parent.mkdir(parents=True)
    watched.touch()
    assert layout.quic_probe(KEY) == watched
