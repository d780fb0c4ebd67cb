"""Two watches at one vantage point, and a watch that starts too late: limits hold, every slot has a row."""

from __future__ import annotations

import json
import subprocess
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from firstflight.run.run import Run
from firstflight.settings import load
from tests.campaign_loopback.world import FIRSTFLIGHT, CampaignWorld
from tests.engines.segments import rows_of
from tests.waiting import PATIENCE_S, until
from tests.watch.test_watch import MINUTE_S, SECOND_NS, records, settings, sql

EAST = '[[vantage]]\nname = "east"\ninterface = "lo"\nports = "{}"\n'


def begin(
    world: CampaignWorld, file: Path, seconds: int, *options: str
) -> tuple[subprocess.Popen[str], Path]:
    """Start a watch for one period; return the process and run."""
    before = set(world.runs())
    watch = subprocess.Popen(
        [*FIRSTFLIGHT, "watch", "--config", str(file), "--period", str(seconds), *options],
        env=world.environment,
        cwd=world.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )

    def new() -> list[Path]:
        return [path for path in set(world.runs()) - before if path.is_dir()]

    until(new, "a run folder")
    (run,) = new()
    return watch, run


def test_a_watch_with_low_precedence_sends_only_while_no_other_is_active(world: CampaignWorld) -> None:
    by_hand = settings(world, "by_hand.toml", vantages=EAST.format("61000-61031"))
    hourly = settings(world, "hourly.toml", vantages=EAST.format("61032-61063"))
    # Probes planned before the pause leave at most half a second late, long before the other watch starts.
    low = ("--set", "watch.precedence=low", "--set", "watch.grace_ms=500")
    second, second_run = begin(world, hourly, 600, *low)
    segments = second_run / "east/1/watch/segments"

    def last_ns() -> int:
        """Return when the second watch last probed."""
        times = [row["sent_at"] or 0 for row in rows_of(segments)]
        return max(times, default=0)

    until(last_ns, "its first probes")
    # A probe is sent even if a busy machine delays it, or starts the stage up to 28 s late.
    first, first_run = begin(world, by_hand, 5 * MINUTE_S, "--set", "watch.grace_ms=60000")
    _, messages = first.communicate(timeout=PATIENCE_S)
    assert first.returncode == 0, messages
    sent = [row["sent_at"] for row in records(first_run, "east", 1, "quic_probe") if row["sent_at"]]
    until(lambda: last_ns() > max(sent), "probes after the end of the other watch")
    world.firstflight("runs", "stop", second_run.name)
    second.communicate(timeout=PATIENCE_S)

    slots = records(second_run, "east", 1, "watch_slot")
    assert [slot["slot"] for slot in slots] == list(range(len(slots)))
    given = [slot for slot in slots if slot["reason"] == "limit"]
    probed = [slot["sent_at"] for slot in slots if slot["state"] == "probed"]
    report = json.loads((second_run / "east/1/watch/report.json").read_text())
    warning = f"{len(given)} slots were skipped (limit) because another watch was running here"
    assert report["warnings"] == [warning]
    # The skipped slots are before the other watch's period, in the gap that the limits require, and during
    # the period. After it, this watch probes again.
    assert len(given) >= 12 and min(probed) < min(sent) < max(sent) < max(probed)
    assert [at for at in probed if min(sent) - 2 * SECOND_NS < at < max(sent)] == []
    # The other watch loses no slot.
    fates = Counter(slot["reason"] or "probed" for slot in records(first_run, "east", 1, "watch_slot"))
    assert fates.keys() == {"probed", "blocked", "no_address"} and fates["probed"] == 5 * 11


def test_a_watch_started_after_its_period_records_missed_slots(
    world: CampaignWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = settings(world, "missed.toml", vantages=EAST.format("61000-61031"))
    monkeypatch.setenv("FIRSTFLIGHT_RUNS", str(world.folder / "runs"))
    made = Run.create(*load(file))
    made.write_manifest({**made.manifest, "kind": "watch"})
    run = made.path
    world.firstflight("stage", "targets", "as_data", "--run", run.name)
    hour = datetime.fromtimestamp(time.time() // 3600 * 3600 - 7200, UTC)
    place = ("--run", run.name, "--vantage", "east", "--repetition", "2")
    world.firstflight("stage", "watch", *place, "--start", hour.isoformat(), "--period", "3600")
    slots = records(run, "east", 2, "watch_slot")
    assert len(slots) == 3600 // 4 * 13
    assert {(slot["state"], slot["reason"], slot["sent_at"]) for slot in slots} == {("skipped", "late", None)}
    assert not (run / "east/2/watch/segments").exists() and not (run / "east/2/capture").exists()
    report = json.loads((run / "east/2/watch/report.json").read_text())
    assert report["state"] == "done" and report["counts"] == {
        "slots": len(slots),
        "probed": 0,
        "skipped_late": len(slots),
    }
    # There is no capture, and the dissect stage accepts that.
    world.firstflight("stage", "dissect", *place)
    report = json.loads((run / "east/2/dissect/report.json").read_text())
    assert (report["state"], report["rows_in"], report["rows_out"]) == ("done", 0, 0)
    world.firstflight("load", run.name)
    of_that_hour = f"purpose = 'owned' AND hour = '{hour:%Y-%m-%d %H:00:00}'"
    (hourly,) = sql(world, f"SELECT * FROM watch_coverage WHERE {of_that_hour}")
    assert hourly["reasons"] == ["late"] and hourly["slots"] == 3600 * 2


def test_a_watch_that_is_killed_and_tried_again_after_its_period_keeps_its_capture(
    world: CampaignWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = settings(world, "killed.toml", vantages=EAST.format("61000-61031"))
    monkeypatch.setenv("FIRSTFLIGHT_RUNS", str(world.folder / "runs"))
    made = Run.create(*load(file, ["watch.grace_ms=60000"]))
    made.write_manifest({**made.manifest, "kind": "watch"})
    run = made.path
    world.firstflight("stage", "targets", "as_data", "--run", run.name)
    place = ("--run", run.name, "--vantage", "east", "--repetition", "1")
    words = [*FIRSTFLIGHT, "stage", "watch", *place, "--period", str(5 * MINUTE_S)]
    stage = subprocess.Popen(words, env=world.environment, cwd=world.folder)
    folder = run / "east/1/watch"
    until(lambda: any(row["sent_at"] for row in rows_of(folder / "segments")), "a probe")
    stage.kill()
    stage.wait()
    end_ns = json.loads((folder / "period.json").read_text())["end_ns"]
    until(lambda: time.time_ns() >= end_ns, "the end of the period")
    world.firstflight("stage", "watch", *place)
    probed = [row for row in records(run, "east", 1, "quic_probe") if row["sent_at"]]
    assert probed and {row["capture_file"] for row in probed} == {f"{run.name}/east/1/capture/probe.pcap"}
    assert [path.name for path in (run / "east/1/capture").glob("probe*")] == ["probe.pcap"]
    # The capture lacks packets that the kernel had not delivered when the stage was killed.
    world.firstflight("stage", "dissect", *place)
    captured = pq.ParquetFile(run / "east/1/dissect/quic_connection.parquet").metadata.num_rows
    assert captured <= len(probed)
