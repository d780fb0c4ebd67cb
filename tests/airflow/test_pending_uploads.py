"""Uploads pending at a vantage point: wait for the store, load exactly once, survive a full disk."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from firstflight import settings
from firstflight.errors import Interrupted
from firstflight.layout import StageKey
from firstflight.run.run import Run
from firstflight.system import files, lock
from orchestration import stages
from orchestration.site import outcome, pending_uploads, site, vantage_points
from orchestration.site.metrics import metrics
from store import open_store
from store.load import loader
from tests import minimal, stores
from tests.airflow import test_inputs as centre
from tests.airflow.conftest import SITE
from tests.store import rows
from tests.waiting import PATIENCE_S

FIRSTFLIGHT = (sys.executable, "-P", "-m", "cli")


def measured(name: str, vantage: str = "hamburg", count: int = 5) -> Run:
    """A run with a finished probe stage of that vantage point, as `inputs.fetch` and the stages leave it."""
    run = Run(Path(os.environ["FIRSTFLIGHT_RUNS"]) / name)
    run.path.mkdir(parents=True, exist_ok=True)
    in_force, _ = settings.load(minimal.write(run.path))
    files.write_json(run.path / "settings.json", in_force.model_dump(mode="json"))
    files.write_json(
        run.path / "manifest.json",
        {"id": name, "state": "running", "started_at": datetime.now(UTC).isoformat(), "repetitions": 1},
    )
    with run.stage("probe", run.key(vantage, 1)) as report:
        path = run.layout.quic_probe(run.key(vantage, 1))
        rows.write(path, rows.many(count, run=name, vantage=vantage))
        report.rows_in = count
        run.add_output(report, path)
    return run


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A vantage point: its folder of runs, and an empty store."""
    monkeypatch.setenv("FIRSTFLIGHT_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("FIRSTFLIGHT_STORE", stores.with_tables(tmp_path / "store"))
    return tmp_path


def counts() -> dict[str, int]:
    with open_store() as store:
        found = store.rows("SELECT run, count() AS n FROM quic_probe GROUP BY run ORDER BY run")
    return {str(row["run"]): int(row["n"]) for row in found}


def test_pending_uploads_are_loaded_once_by_later_runs(place: Path) -> None:
    del place
    first = measured("20261120T060000Z-aaaaaa")
    assert [part.loaded for part in pending_uploads.uploads([])] == [False]
    assert pending_uploads.load_pending() == (1, [])
    assert [part.loaded for part in pending_uploads.uploads([])] == [True]
    assert pending_uploads.load_pending() == (0, [])
    measured("20261121T060000Z-bbbbbb", count=7)
    assert pending_uploads.load_pending() == (1, [])
    assert counts() == {first.id: 5, "20261121T060000Z-bbbbbb": 7}

    # A repeated stage is loaded again and replaces its earlier rows.
    measured("20261120T060000Z-aaaaaa", count=6)
    assert [part.loaded for part in pending_uploads.uploads([])] == [False, True]
    assert pending_uploads.load_pending() == (1, [])
    assert counts()[first.id] == 6


def test_runs_loaded_by_a_campaign_are_not_pending(place: Path) -> None:
    del place
    run = measured("20261120T060000Z-aaaaaa")
    loader.stage(run)
    assert [part.loaded for part in pending_uploads.uploads([])] == [True]
    assert counts() == {run.id: 5}
    with run.stage("probe", run.key("hamburg", 1)):
        pass  # done again, so not loaded
    assert [part.loaded for part in pending_uploads.uploads([])] == [False]


def test_a_survey_waits_by_its_own_stage_and_a_scan_by_its_probes(place: Path) -> None:
    del place
    run = measured("20261120T060000Z-aaaaaa")
    key = run.key("hamburg", 1)
    with run.stage("tcp_options", key):
        pass
    assert [upload.key for upload in pending_uploads.uploads([])] == [key]
    survey = measured("20261121T060000Z-bbbbbb")
    survey.write_manifest({**survey.manifest, "kind": "survey"})
    assert [upload.run.id for upload in pending_uploads.uploads([])] == [run.id]
    with survey.stage("tcp_options", survey.key("hamburg", 1)):
        pass
    assert [upload.run.id for upload in pending_uploads.uploads([])] == [run.id, survey.id]


def test_a_scan_is_loaded_if_the_probes_never_started(place: Path) -> None:
    del place
    run = measured("20261120T060000Z-aaaaaa")
    key, later = run.key("hamburg", 1), run.key("hamburg", 2)
    with run.stage("resolve", later):
        pass
    assert [upload.key for upload in pending_uploads.uploads([])] == [key]
    with run.stage("scan", later) as report:
        path = run.layout.scan_answer(later)
        rows.write(path, [rows.scan_answer(run=run.id, repetition=2)], "scan_answer")
        run.add_output(report, path)
    assert {upload.key for upload in pending_uploads.uploads([])} == {key, later}
    assert pending_uploads.load_pending() == (2, [])
    assert all(upload.loaded for upload in pending_uploads.uploads([]))
    with open_store() as store:
        assert store.rows("SELECT repetition FROM scan_answer") == [{"repetition": 2}]
    # An unfinished main stage keeps the part back, whatever else is done.
    with contextlib.suppress(Interrupted), run.stage("probe", later):
        raise Interrupted("stopped")
    assert [upload.key for upload in pending_uploads.uploads([])] == [key]


@pytest.mark.parametrize(("elsewhere", "loaded"), [(False, True), (True, False)])
def test_manually_loaded_runs_are_not_pending(place: Path, elsewhere: bool, loaded: bool) -> None:
    run = measured("20261120T060000Z-aaaaaa")
    environment = dict(os.environ)
    if elsewhere:  # this vantage point's store still lacks it
        environment["FIRSTFLIGHT_STORE"] = f"chdb:{place}/another"
    done = subprocess.run(
        [*FIRSTFLIGHT, "load", run.id], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and "5 of them in the store" in done.stdout, done.stderr
    assert [part.loaded for part in pending_uploads.uploads([])] == [loaded]


def test_uploads_continue_when_the_store_is_available_again(place: Path) -> None:
    """The real server, started late: one sentence, files wait; afterwards every row once."""
    names = ["20261120T060000Z-aaaaaa", "20261121T060000Z-bbbbbb"]
    for name in names:
        measured(name)
    environment = {**os.environ, "FIRSTFLIGHT_STORE": "clickhouse://127.0.0.1:9/firstflight"}
    load = [*FIRSTFLIGHT, "uploads", "load"]
    done = subprocess.run(load, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode not in (0, 130)
    assert "Traceback" not in done.stderr and "127.0.0.1" in done.stderr.splitlines()[-1]
    waits = subprocess.run(
        [*FIRSTFLIGHT, "uploads", "status"], env=environment, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert [line.split()[0] for line in waits] == names and all("waits" in line for line in waits)

    serve = [*FIRSTFLIGHT, "store", "serve", "--no-password", "--port", "0"]
    server = subprocess.Popen(serve, stderr=subprocess.PIPE, text=True, cwd=place)
    try:
        assert server.stderr is not None
        port = server.stderr.readline().rstrip().rpartition(":")[2]
        environment["FIRSTFLIGHT_STORE"] = f"clickhouse://127.0.0.1:{port}/firstflight"
        for _ in range(2):
            done = subprocess.run(load, env=environment, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
    finally:
        server.terminate()
        server.wait()
    assert counts() == dict.fromkeys(names, 5)


def test_a_broken_file_does_not_delay_others(place: Path) -> None:
    del place
    broken = measured("20261120T060000Z-aaaaaa")
    broken.layout.quic_probe(broken.key("hamburg", 1)).write_bytes(b"PAR1")
    measured("20261121T060000Z-bbbbbb")
    came_in, faults = pending_uploads.load_pending()
    assert came_in == 1 and len(faults) == 1
    assert "quic_probe.parquet" in str(faults[0])
    assert counts() == {"20261121T060000Z-bbbbbb": 5}


@pytest.mark.parametrize("broken_file", ["manifest.json", "settings.json", "hamburg/1/probe/report.json"])
def test_a_run_damaged_by_a_power_cut_does_not_delay_others(place: Path, broken_file: str) -> None:
    del place
    broken = measured("20261120T060000Z-aaaaaa")
    (broken.path / broken_file).write_bytes(b"")
    intact = measured("20261121T060000Z-bbbbbb")
    count, faults = pending_uploads.load_pending()
    assert count == 1
    (fault,) = faults
    says = rf"run {broken.id} is skipped: .*{broken_file} is not JSON: .*; repair that file, or remove "
    assert re.match(says, str(fault)) and str(fault).endswith(str(broken.path)), fault
    assert counts() == {intact.id: 5}
    left_out: list[pending_uploads.BrokenRun] = []
    assert pending_uploads.clean(0, left_out) == [intact.id]
    assert [failure.run.id for failure in left_out] == [broken.id]
    for command in ("status", "load", "clean --keep-days 0"):
        words = [*FIRSTFLIGHT, "uploads", *command.split()]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == 3 and f"run {broken.id} is skipped" in done.stderr, (command, done.stderr)
        assert "Traceback" not in done.stderr
    gauges = {family.name: family.samples[0].value for family in metrics() if family.samples}
    assert gauges["firstflight_uploads_failed"] == 1


def test_clean_removes_only_what_is_loaded_and_old(place: Path) -> None:
    del place
    loaded = measured("20261120T060000Z-aaaaaa")
    pending_uploads.load_pending()
    waiting = measured("20261121T060000Z-bbbbbb")
    assert pending_uploads.clean(1, []) == []
    # A killed clean left this folder.
    left = loaded.path.parent / "removed" / loaded.id
    left.mkdir(parents=True)
    (left / "manifest.json").touch()
    assert pending_uploads.clean(0, []) == [loaded.id]
    assert not loaded.path.exists() and waiting.path.exists() and not left.parent.exists()


def test_captures_are_kept_for_fewer_days_than_rows(place: Path) -> None:
    del place
    old, new, waits = (measured(f"2026112{n}T060000Z-{'abc'[n] * 6}") for n in range(3))
    for run in (old, new):
        loader.stage(run)
    ended = datetime.now(UTC) - timedelta(days=8)
    for run in (old, waits):
        for report in run.reports():
            path = next(path for path in run.path.rglob("report.json") if report.stage in str(path))
            written = files.read_json(path)
            begin, end = (ended + timedelta(minutes=n + (report.stage == "load")) for n in (0, 1))
            files.write_json(path, written | {"started_at": begin.isoformat(), "ended_at": end.isoformat()})
    captures = {}
    for run in (old, new, waits):
        folder = run.layout.folder(run.key("hamburg", 1))
        captures[run] = [
            folder / name for name in ("capture/probe.pcap", "download/bl.pcap", "download/bl.keys")
        ]
        for path in captures[run]:
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(b"12345")
    assert [part.loaded for part in pending_uploads.uploads([])] == [True, True, False]
    assert pending_uploads.remove_captures(9) == (0, 0)
    done = subprocess.run(
        [*FIRSTFLIGHT, *["uploads", "clean", "--keep-days", "30", "--keep-captures-days", "7"]],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0 and "3 captures and key logs removed, 15 bytes" in done.stderr, done.stderr
    assert [path.exists() for run in captures for path in captures[run]] == [False] * 3 + [True] * 6
    # Loaded parts stay loaded, and their files stay, so they can be loaded again.
    assert [part.loaded for part in pending_uploads.uploads([])] == [True, True, False]
    assert old.layout.quic_probe(old.key("hamburg", 1)).is_file()


def test_clean_keeps_a_run_that_goes_on(place: Path) -> None:
    del place
    run = measured("20261120T060000Z-aaaaaa", vantage="here")
    pending_uploads.load_pending()
    manifest = run.manifest
    with run.stage("resolve", run.key("here", 2)):
        assert pending_uploads.clean(0, []) == [], "a stage is at work"
    with run.lock():
        assert pending_uploads.clean(0, []) == [], "a campaign is at work"
    run.write_manifest({**manifest, "dag_run": "a", "vantage": "here", "repetitions": 2})
    assert pending_uploads.clean(0, []) == [], "the second repetition is not due yet"
    run.write_manifest({**manifest, "dag_run": "a", "vantage": "here", "kind": "watch"})
    with run.stage("watch", run.key("here", 1)):
        pass
    pending_uploads.load_pending()
    stored = files.read_json(run.layout.settings)
    stored["watch"]["precedence"] = "low"
    files.write_json(run.layout.settings, stored)
    assert pending_uploads.clean(0, []) == [], "the day has more hours"
    run.write_manifest(manifest)
    with contextlib.suppress(KeyboardInterrupt), run.stage("probe", run.key("here", 2)):
        raise KeyboardInterrupt
    assert pending_uploads.clean(0, []) == [], "it may be resumed"
    assert [part.loaded for part in pending_uploads.uploads([])] == [True]

    run.layout.stop_file.touch()
    assert pending_uploads.clean(0, []) == [], "what was measured until it was stopped is not loaded"
    run.layout.stop_file.unlink()
    run.write_manifest({**manifest, "started_at": (datetime.now(UTC) - timedelta(days=31)).isoformat()})
    assert pending_uploads.clean(0, []) == [run.id]


def test_clean_leaves_the_inputs_that_a_run_uses(place: Path) -> None:
    loaded = measured("20261120T060000Z-aaaaaa")
    waiting = measured("20261121T060000Z-bbbbbb")
    pending_uploads.load_pending()
    cache = place / "runs" / "cache"
    for name, run in (("table", loaded), ("list", waiting)):
        files.write_text(cache / name, name)
        (run.path / name).hardlink_to(cache / name)
    with waiting.stage("probe", waiting.key("hamburg", 1)):
        pass  # done again, so not loaded
    assert pending_uploads.clean(0, []) == [loaded.id]
    assert [path.name for path in cache.iterdir()] == ["list"]


def test_clean_at_the_centre_keeps_the_newest_list_and_what_goes_on(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIRSTFLIGHT_SITE", str(place))
    centre.centre_files(place)
    points = vantage_points.load(SITE / "vantage_points.toml").vantage

    def at_centre(kind: str | None, state: str = "running", *stages: str, day: str = "2024-08-07") -> Run:
        run = site.new_run(date(2024, 8, 7), points)
        more = {"kind": kind, "state": state, "date": day, "dag_run": "scheduled"}
        run.write_manifest({**run.manifest, **more})
        for stage in stages:
            with run.stage(stage):
                pass
        return run

    newest = at_centre("targets", "running", "targets")
    filled_back = at_centre("targets", "running", "targets", day="2024-08-01")
    failed = at_centre("targets")
    ended, watch = at_centre(None, "failed", "load"), at_centre("watch", "running", "load")
    never_offered, crawl_without_list = at_centre("survey", "failed"), at_centre("crawl", "failed")
    offered = at_centre("downloads", "failed")
    files.write_text(offered.layout.inputs, "{}")
    goes_on, not_loaded = at_centre(None, "running", "load"), at_centre(None, "done")
    # Downloads use the newest crawl; a crawl that is not loaded waits.
    crawled = at_centre("crawl", "done", "crawl", "load")
    before = at_centre("crawl", "running", "crawl", "load", day="2024-07-31")
    waits = at_centre("crawl", "done", "crawl", day="2024-07-24")
    by_hand = measured("20261120T060000Z-aaaaaa")
    assert pending_uploads.clean(1, []) == []
    over = (filled_back, failed, ended, watch, before, never_offered, crawl_without_list)
    assert set(pending_uploads.clean(0, [])) == {run.id for run in over}
    kept_runs = (offered, goes_on, not_loaded, newest, crawled, waits, by_hand)
    assert {run.id for run in Run.all()} == {run.id for run in kept_runs}


# Enough space for the settings, but not for a list of two megabytes. The second fetch finds space in its
# check, but the disk is full when it writes.
_FULL = """
mount -t tmpfs -o size=1m none {pending}
{python} -c {fetch} >{folder}/refused.out 2>&1
{python} -c {fetch} filled >{folder}/full.out 2>&1
mount -o remount,size=50m {pending}
{python} -c {fetch} >{folder}/whole.out 2>&1
"""

_FETCH = """
import shutil, sys, types
if sys.argv[1:] == ["filled"]:
    shutil.disk_usage = lambda path: types.SimpleNamespace(free=1 << 30)
from tests.airflow.test_inputs import HAMBURG, token_for
from orchestration.site import inputs
from firstflight.errors import FirstflightError
try:
    run = inputs.fetch({run!r}, HAMBURG, {centre!r}, token_for({run!r}))
    print("whole", run.done("targets"))
except FirstflightError as error:
    print("error:", error)
"""


def test_a_full_disk_is_one_sentence_and_the_next_try_goes_on(place: Path) -> None:
    """A small mounted file system as the pending uploads; a real server provides the inputs."""
    (place / "pending").mkdir()
    centre.centre_files(place)
    run = centre.open_run(place, 2_000_000)
    with centre.serving(place) as url:
        script = _FULL.format(
            pending=place / "pending",
            python=sys.executable,
            fetch=shlex.quote(_FETCH.format(run=run.id, centre=url)),
            folder=place,
        )
        unshare = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--mount", "--map-root-user"]
        environment = {**os.environ, "FIRSTFLIGHT_RUNS": str(place / "pending")}
        subprocess.run([*unshare, "sh", "-c", script], env=environment, check=True, timeout=PATIENCE_S)
    printed = {name: (place / f"{name}.out").read_text() for name in ("refused", "full", "whole")}
    assert printed["refused"].startswith("error: the inputs of") and "more than half" in printed["refused"]
    assert printed["full"].startswith("error: the disk that holds") and "is full" in printed["full"]
    assert printed["refused"].count("\n") == printed["full"].count("\n") == 1
    assert "whole True" in printed["whole"]


def test_a_shard_that_was_not_loaded_is_missing(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(place / "runs" / "sharded")
    run.path.mkdir(parents=True)
    in_force, _ = settings.load(minimal.write(run.path), ["campaign.repetitions=1"])
    stored = in_force.model_dump(mode="json")
    stored["vantage"][0]["shards"] = 3
    files.write_json(run.layout.settings, stored)
    manifest = {"id": run.id, "name": "x", "state": "running", "started_at": datetime.now(UTC).isoformat()}
    files.write_json(run.layout.manifest, {**manifest, "repetitions": 1})
    first, second, third = stages.keys(run, "here", 1)
    everything = rows.many(30, run=run.id, vantage="here")

    def measure(key: StageKey) -> int:
        is_of_shard = key.shard.holds(row["domain"].encode() for row in everything)
        shard_rows = [row for row, is_included in zip(everything, is_of_shard, strict=True) if is_included]
        with run.stage("probe", key) as report:
            path = run.layout.quic_probe(key)
            name = run.layout.name_of(path)
            rows.write(path, [{**row, "source_file": name} for row in shard_rows])
            report.rows_in = len(shard_rows)
            run.add_output(report, path)
        return len(shard_rows)

    measured_rows = measure(first) + measure(third)
    # Its own task loads the first one: this one takes the third meanwhile, and finds the first one loaded.
    with lock.locked(run.layout.stage_lock("load", first), "load"):
        monkeypatch.setattr(pending_uploads, "_OTHER_S", 0.2)
        loaded, faults = pending_uploads.load_pending()
        assert (loaded, ["another process" in str(fault) for fault in faults]) == (1, [True])
        assert [part.loaded for part in pending_uploads.uploads([])] == [False, True]
    assert pending_uploads.load_pending() == (1, [])
    assert [part.key for part in pending_uploads.uploads([])] == [first, third]
    found = outcome.of(run)
    assert (found.rows, found.missing) == ({"here": measured_rows}, [second])
    assert "missing: here, repetition 1, shard 1/3" in found.sentences()
    measure(second)
    assert pending_uploads.load_pending() == (1, [])
    found = outcome.of(run)
    assert (found.rows, found.missing) == ({"here": 30}, [])
    with open_store() as store:
        assert store.rows("SELECT sum(probes) AS n, sum(names) AS m FROM probe_day") == [{"n": 30, "m": 30}]
    assert pending_uploads.load_pending() == (0, [])
