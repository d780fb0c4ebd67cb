"""Stages that are killed after their engine exits: no row is lost, and no server is contacted again."""

from __future__ import annotations

import importlib
import os
import shutil
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crawler.lists import stage as targets
from crawler.routing import stage as as_data
from firstflight import settings
from firstflight.run.run import Run
from scanner.driver.segments import closed_segments, read_segment
from scanner.resolve import stage as resolve
from tests.engines import record_rows, self_killing

from .world import OPTED_OUT, CampaignWorld

NAMES = ("edge0.camp.test", "edge1.camp.test", "edge2.camp.test", "closed0.camp.test", OPTED_OUT)
VANTAGES = '[[vantage]]\nname = "east"\ninterface = "lo"\nports = "61000-61031"\n'
# Name -> module, engines that run one after the other, rows of each record file.
STAGES = {
    "probe": ("scanner.first_answer.stage", 1, {"quic_probe": 5}),
    "handshake": ("scanner.handshake.stage", 1, {"quic_handshake": 5, "certificate": 1, "http3_response": 3}),
    "calibrate": ("scanner.calibrate.stage", 4, {"calibration": 5}),
    "tcp_options": ("scanner.tcp_options.stage", 1, {"tcp_option": 5}),
    "watch": ("scanner.watch.stage", 1, {"watch_slot": 10, "quic_probe": 10, "dns_answer": 5}),
}
Tables = dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def resolved(world: CampaignWorld) -> Iterator[Run]:
    """A run with resolved names, and a TCP server in addition to the QUIC server."""
    (world.folder / "few.csv").write_text("".join(f"{name}\n" for name in NAMES))
    with socket.create_server(("0.0.0.0", 0)) as listens, pytest.MonkeyPatch.context() as patch:
        patch.setenv("FIRSTFLIGHT_RUNS", str(world.folder / "runs"))
        changes = {
            "targets.file": '"few.csv"',
            "probe.per_address_rate": 0,
            "capture.enabled": "false",
            "handshake.enabled": "true",
            "handshake.share": 1,
            "calibrate.enabled": "true",
            "calibrate.share": 1,
            "calibrate.gap_s": 0,
            "tcp_options.enabled": "true",
            "tcp_options.share": 1,
            "tcp_options.port": listens.getsockname()[1],
            "watch.minute_s": 1,
            "watch.period_s": 2,
            "watch.grace_ms": 60_000,
        }
        path = world.settings("killed.toml", vantages=VANTAGES)
        run = Run.create(*settings.load(path, [f"{name}={value}" for name, value in changes.items()]))
        targets.stage(run)
        as_data.stage(run)
        resolve.stage(run, run.key("east", 1))
        yield run


def copy_of(run: Run, folder: Path) -> Run:
    """Return a copy of a run, in `folder`."""
    return Run(shutil.copytree(run.path, folder / run.id))


def tables(folder: Path) -> Tables:
    """Return the rows in a stage's record files."""
    return {path.stem: record_rows.read(path) for path in sorted(folder.glob("*.parquet"))}


def sent_at(rows: Tables) -> list[int]:
    """Return all sending times in the rows."""
    times = [row[name] for of in rows.values() for row in of for name in row if name.endswith("sent_at")]
    return [at for at in times if at is not None]


@pytest.mark.parametrize("name", STAGES)
def test_a_stage_killed_at_any_step_after_its_engine_loses_nothing(
    resolved: Run, tmp_path: Path, name: str
) -> None:
    module, engines, files = STAGES[name]
    key, stage = resolved.key("east", 1), importlib.import_module(module).stage
    with self_killing.Runs(module) as runs:
        contacted = copy_of(resolved, tmp_path / "contacted")
        assert runs.killed_before(1, contacted.path, key, engines=engines)
        at_ns = time.time_ns()
        undisturbed = copy_of(contacted, tmp_path / "undisturbed")
        stage(undisturbed, key)
        expected = tables(undisturbed.layout.stage(name, key))
        assert {kind: len(rows) for kind, rows in expected.items()} == files
        assert max(sent_at(expected)) < at_ns, "what is there is not sent again"

        steps, after_report = 0, 0
        while True:
            run = copy_of(contacted, tmp_path / str(steps))
            folder = run.layout.stage(name, key)
            if not runs.killed_before(steps + 1, run.path, key):
                break
            steps += 1
            if run.done(name, key):  # it is not run again
                after_report += 1
            else:
                stage(run, key)
                assert not any((folder / left).exists() for left in ("segments", "pairs", "blocks"))
            assert tables(folder) == expected, steps
    assert steps > after_report > 0


@pytest.mark.parametrize(("name", "others"), [(name, False) for name in STAGES] + [("handshake", True)])
def test_files_emptied_by_a_power_cut_are_measured_again(
    resolved: Run, tmp_path: Path, name: str, others: bool
) -> None:
    """The engine had exited, but the last segment and the summary were only in the disk's cache.

    `others`: the lost segment has another kind of row that the stage also writes.
    """
    module, engines, files = STAGES[name]
    key, stage = resolved.key("east", 1), importlib.import_module(module).stage
    run = copy_of(resolved, tmp_path)
    with self_killing.Runs(module) as runs:
        assert runs.killed_before(1, run.path, key, engines=engines)
    folder = run.layout.stage(name, key)
    lost_rows, kept_rows = 0, 0
    for segments in folder.rglob("segments"):
        *earlier, last = [read_segment(path).num_rows for path in closed_segments(segments)]
        lost_rows, kept_rows = lost_rows + last, kept_rows + sum(earlier)
        emptied = (segments / "http3_response") if others else segments
        for path in (closed_segments(emptied)[-1], segments.parent / "summary.json"):
            written = path.stat()
            path.write_bytes(b"")
            os.utime(path, ns=(written.st_atime_ns, written.st_mtime_ns))
    at_ns = time.time_ns()
    stage(run, key)
    report, rows = run.report(name, key), tables(folder)
    assert report is not None and report.state == "done"
    assert any("cut short" in warning for warning in report.warnings)
    sent_again = [at for at in sent_at(rows) if at >= at_ns]
    if name == "watch":  # the planned times have passed
        assert not sent_again
        states = [row["reason"] for row in rows["watch_slot"]]
        assert (
            len(states) == files["watch_slot"] and len(rows["quic_probe"]) == files["watch_slot"] - lost_rows
        )
        assert states.count("cut") == lost_rows > 0
    else:
        assert {kind: len(of) for kind, of in rows.items()} == files
        assert kept_rows or len(sent_again) == len(sent_at(rows)), "nothing else was there"
        assert sent_again
    assert not any((folder / left).exists() for left in ("segments", "pairs", "blocks"))
