"""The table of stages compared with the code and files that it names, and a run's layout."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from cli.run.stage import command
from firstflight import settings
from firstflight.layout import OWN_NAMES, RunLayout, StageKey
from firstflight.run.outline import Known
from firstflight.run.run import Run
from firstflight.system import files
from orchestration import stages
from orchestration.local import preview
from orchestration.stages import RunPlan, Scope, Stage
from schemas import records
from tests import minimal

RUN = "20261120T063905Z-a1b2c3"
KEY = StageKey(RUN, "hamburg", 2)
KNOWN = {"resolve", "scan", "probe", "handshake", "calibrate", "tcp_options", "download", "watch", "dissect"}


@pytest.mark.parametrize("stage", stages.STAGES, ids=stages.names())
def test_the_entry_has_the_parameters_of_the_scope(stage: Stage) -> None:
    parameters = list(inspect.signature(stage.function()).parameters.values())
    positional = [parameter for parameter in parameters if parameter.kind is parameter.POSITIONAL_OR_KEYWORD]
    required = [parameter.name for parameter in positional if parameter.default is parameter.empty]
    assert required == (["run", "key"] if stage.scope is Scope.KEY else ["run"])
    assert (len(positional) == 2) == (stage.scope is not Scope.RUN)
    assert stage.timed == ("start_ns" in {parameter.name for parameter in parameters})


def test_help_names_all_stages() -> None:
    assert set(stages.names()) <= set(re.findall(r"[a-z_]+", str(command.help)))


def test_a_dry_run_announces_all_that_is_sent(tmp_path: Path) -> None:
    sending = stages.at_vantage(RunPlan.SCAN)
    enabled = [f"{stage.enabled_by}.enabled=true" for stage in sending if stage.enabled_by]
    enabled += minimal.SCAN
    path = minimal.write(tmp_path)
    for changes in ([], enabled):
        in_force, _ = settings.load(path, ["resolve.resolver=192.0.2.1", *changes])
        text = "\n".join(preview.describe(in_force))
        for stage in sending:
            # The amounts of the stage: packets, or that they are unknown.
            assert (f"\n  {stage.name}: " in text) == stage.is_enabled(in_force), stage.name
            outline = stage.outlined(in_force, Known(1, 1), in_force.vantage[0])
            announced = [*outline.lines, *filter(None, [outline.pace, outline.count])]
            assert announced, f"the outline of {stage.name} has no sentence"
            assert stage.is_enabled(in_force) == all(words in text for words in announced), stage.name


def test_a_stage_without_an_outline_does_not_say_that_it_sends_nothing(tmp_path: Path) -> None:
    assert all(stage.outline for stage in stages.STAGES if stage.sends or stage.fetches)
    in_force, _ = settings.load(minimal.write(tmp_path))
    known = Known(1)
    for stage in (stages.named("probe"), stages.named("targets"), stages.named("dissect")):
        found = replace(stage, outline=None).outlined(in_force, known, in_force.vantage[0])
        assert found.known == known
        assert (found.traffic is None) == (stage.name != "dissect")


def test_stages_write_the_kinds_that_the_loader_loads() -> None:
    """The exceptions are kinds that another module writes. These name the module, and its KIND names them."""
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
            RunPlan.SCAN,
            None,
            ["resolve", "scan", "probe", "handshake", "calibrate", "tcp_options", "download"],
            ["dissect"],
        ),
        (RunPlan.SCAN, {"capture": False, "tcp_options": True}, ["resolve", "probe", "tcp_options"], []),
        (RunPlan.SCAN, {"capture": False, "download": True}, ["resolve", "probe", "download"], []),
        (RunPlan.SCAN, {"capture": True, "handshake": True}, ["resolve", "probe", "handshake"], ["dissect"]),
        (RunPlan.SCAN, {"capture": True, "handshake": False}, ["resolve", "probe"], ["dissect"]),
        (RunPlan.SCAN, {"capture": True, "calibrate": True}, ["resolve", "probe", "calibrate"], ["dissect"]),
        (RunPlan.SCAN, {"capture": False, "handshake": True}, ["resolve", "probe", "handshake"], []),
        (RunPlan.WATCH, {"capture": True, "handshake": True}, ["watch"], ["dissect"]),
        (RunPlan.DOWNLOADS, {"capture": True, "download": True}, ["resolve", "download"], []),
        (RunPlan.SURVEY, {"capture": True, "tcp_options": True}, ["resolve", "tcp_options"], []),
    ],
)
def test_the_order_of_a_plan(
    tmp_path: Path, plan: RunPlan, enabled: dict[str, bool] | None, sending: list[str], later: list[str]
) -> None:
    minimal.write(tmp_path)
    overrides = [f"{section}.enabled={str(on).lower()}" for section, on in (enabled or {}).items()]
    found = None if enabled is None else settings.load(tmp_path / "c.toml", overrides)[0]

    def names(chosen: Iterable[Stage]) -> list[str]:
        """Return the names without stages that this table does not know."""
        return [stage.name for stage in chosen if stage.name in KNOWN]

    assert names(stages.at_vantage(plan, found)) == sending
    assert names(stages.processing(plan, found)) == later
    assert names(stages.measuring(plan, found)) == [n for n in sending if n not in ("resolve", "scan")]
    mains = {RunPlan.SCAN: "probe", RunPlan.WATCH: "watch", RunPlan.SURVEY: "tcp_options"}
    mains[RunPlan.DOWNLOADS] = "download"
    assert stages.main(plan).name == mains[plan]


@pytest.mark.parametrize(
    ("kind", "plan"),
    [
        (None, RunPlan.SCAN),
        ("watch", RunPlan.WATCH),
        ("survey", RunPlan.SURVEY),
        ("downloads", RunPlan.DOWNLOADS),
        ("targets", RunPlan.SCAN),
    ],
)
def test_the_plan_of_a_run_is_its_kind_s(tmp_path: Path, kind: str | None, plan: RunPlan) -> None:
    files.write_json(tmp_path / "manifest.json", {"id": RUN, **({"kind": kind} if kind else {})})
    assert stages.plan_of(Run(tmp_path)) is plan


def test_stages_with_a_schedule_are_enabled_only_on_request() -> None:
    sections = [{name: on["enabled"] for name, on in stages.enabling(*w).items()} for w in ((), ("crawl",))]
    assert sections[0] == {"crawl": False, "tcp_options": False, "download": False}
    assert sections[1] == {"crawl": True, "tcp_options": False, "download": False}


def test_stages_of_the_centre_are_no_inputs(tmp_path: Path) -> None:
    minimal.write(tmp_path)
    on = settings.load(tmp_path / "c.toml", ["crawl.enabled=true"])[0]
    off = settings.load(tmp_path / "c.toml")[0]
    assert stages.names(stages.at_centre()) == ["targets", "as_data"]
    assert stages.names(stages.once_per_run()) == ["targets", "as_data", "crawl"]
    assert stages.names(stages.from_centre(RunPlan.SCAN, on)) == ["crawl"]
    assert stages.from_centre(RunPlan.SCAN, off) == stages.from_centre(RunPlan.WATCH, on) == []
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


def test_a_watch_and_a_scan_have_separate_probes(tmp_path: Path) -> None:
    layout = RunLayout(tmp_path / RUN)
    assert layout.quic_probe(KEY) == layout.stage("probe", KEY) / "quic_probe.parquet"
    assert layout.watch_probe(KEY) == layout.stage("watch", KEY) / "quic_probe.parquet"
