"""Watches on loopback with real servers: every slot has a row, probed or skipped with a reason."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tests import stores
from tests.campaign_loopback.world import FIRSTFLIGHT, OPTED_OUT, CampaignWorld
from tests.engines import record_rows, segments
from tests.processes import halt, running
from tests.waiting import PATIENCE_S, until

SECOND_NS = 10**9
MINUTE_S = 4  # length of a schedule's minute in this test
GRACE_MS = 3000
NAMES = ["edge0.camp.test", "edge1.camp.test", "closed0.camp.test", "none.camp.test", OPTED_OUT]
OWNED = "edge2.camp.test"
OWNED_PER_MINUTE = 8
MINUTES = 5  # minutes in a complete period
# All slots in a period except `none`, which has no address, and the name that opted out.
PROBED = MINUTES * (len(NAMES) - 2 + OWNED_PER_MINUTE)
COUNT = "SELECT count() AS slots, countIf(state = 'probed') AS probed FROM watch_slot"


def settings(world: CampaignWorld, name: str, vantages: str | None = None) -> Path:
    """Write settings for a watch: in four seconds, NAMES once and OWNED eight times."""
    (world.folder / "few.csv").write_text("".join(f"{domain}\n" for domain in NAMES))
    path = world.settings(name, vantages=vantages)
    text = path.read_text().replace('file = "names.csv"', 'file = "few.csv"')
    text = text.replace("[probe]\n", "[probe]\nper_address_rate = 3\n")
    watch = f'minute_s = {MINUTE_S}\nowned = ["{OWNED}"]\nowned_per_minute = {OWNED_PER_MINUTE}\n'
    more = f'ownership = "the test"\nresolve_every_s = 3\ngrace_ms = {GRACE_MS}\n'
    path.write_text(f"{text}\n[watch]\n{watch}{more}")
    return path


def sql(world: CampaignWorld, query: str) -> list[dict[str, Any]]:
    """Query the store."""
    return stores.rows(world.store, query)


def records(run: Path, vantage: str, period: int, kind: str) -> list[dict[str, Any]]:
    """Return records from a watch stage."""
    rows: list[dict[str, Any]] = record_rows.read(run / vantage / str(period) / "watch" / f"{kind}.parquet")
    return rows


def check_slots(run: Path, vantage: str, period: int, length_s: int) -> list[dict[str, Any]]:
    """Check that every planned slot of the period exists once, on the grid, and that no probe was early."""
    begun = json.loads((run / vantage / str(period) / "watch" / "period.json").read_text())
    assert begun["end_ns"] - begun["start_ns"] == length_s * SECOND_NS
    assert begun["start_ns"] % (MINUTE_S * SECOND_NS) == 0
    slots = records(run, vantage, period, "watch_slot")
    assert [slot["slot"] for slot in slots] == list(range(len(slots)))
    times = defaultdict(list)
    for slot in slots:
        times[slot["domain"]].append(slot["planned_at"])
        assert begun["start_ns"] <= slot["planned_at"] < begun["end_ns"]
        assert (slot["state"] == "probed") == (slot["reason"] is None) == (slot["outcome"] is not None)
    for name in [*NAMES, OWNED]:
        interval_ns = MINUTE_S * SECOND_NS // (OWNED_PER_MINUTE if name == OWNED else 1)
        assert len(times[name]) == length_s * SECOND_NS // interval_ns
        assert {b - a for a, b in pairwise(times[name])} <= {interval_ns}
    places = {slot["planned_at"] % (MINUTE_S * SECOND_NS) for slot in slots if slot["domain"] in NAMES}
    assert len(places) == len(NAMES)

    rows = {row["slot"]: row for row in records(run, vantage, period, "quic_probe")}
    probed = [slot for slot in slots if slot["state"] == "probed"]
    blocked = [slot for slot in slots if slot["reason"] == "blocked"]
    assert set(rows) == {slot["slot"] for slot in [*probed, *blocked]}
    for slot in probed:
        row = rows[slot["slot"]]
        assert row["sent_at"] - slot["planned_at"] == slot["late_us"] * 1000 + row["sent_at"] % 1000
        for column in ("domain", "ip", "outcome", "ack_us", "sh_us", "asn", "cdn"):
            assert row[column] == slot[column]
        assert (row["attempts"], row["address_rank"]) == (1, None)
    # No probe is early. tests/prober/test_feed.py checks that probes do not wait too long.
    assert min(slot["late_us"] for slot in probed) >= 0
    return slots


def probed_since(folder: Path, at_ns: int) -> bool:
    """Return whether closed segments hold a probe sent at `at_ns` or later."""
    return any((row["sent_at"] or 0) >= at_ns for row in segments.rows_of(folder / "segments"))


def second_is_answered(folder: Path) -> bool:
    """Return whether a vantage point has an answered owned probe of period 2, and all answers of period 1."""
    if not (folder / "1/watch/summary.json").is_file():  # until its prober has finished
        return False
    rows = segments.rows_of(folder / "2/watch/segments")
    return any(row["domain"] == OWNED and row["outcome"] == "coalesced" for row in rows)


def test_a_watch_keeps_its_times_and_sees_a_server_change(world: CampaignWorld) -> None:
    file = settings(world, "w.toml")
    watch = subprocess.Popen(
        [
            *FIRSTFLIGHT,
            "watch",
            "--config",
            str(file),
            "--period",
            str(MINUTES * MINUTE_S),
            "--periods",
            "2",
            # No planned probe is late on any machine.
            "--set=watch.grace_ms=60000",
        ],
        env=world.environment,
        cwd=world.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    (run,) = until(world.runs, "a run folder")
    # A vantage point may start one minute of the schedule after the other.
    folders = {vantage: run / vantage for vantage in ("east", "west")}
    answered: set[str] = set()

    def all_are() -> bool:
        answered.update(name for name in {*folders} - answered if second_is_answered(folders[name]))
        return len(answered) == len(folders)

    until(all_are, "answers in the second periods")
    begins = [
        json.loads((folder / "2/watch/period.json").read_text())["start_ns"] for folder in folders.values()
    ]
    second = dict(zip(folders, begins, strict=True))
    last = max(begins)
    server = world.stop_server()
    stopped = time.time_ns()
    try:
        out, messages = watch.communicate(timeout=PATIENCE_S)
    finally:
        world.go_on(server)
    assert watch.returncode == 0, messages
    assert out.splitlines()[-1] == run.name

    for vantage, begun in second.items():
        before = check_slots(run, vantage, 1, MINUTES * MINUTE_S)
        after = check_slots(run, vantage, 2, MINUTES * MINUTE_S)
        fates = Counter((slot["domain"], slot["outcome"] or slot["reason"]) for slot in before)
        assert fates == {
            ("edge0.camp.test", "coalesced"): MINUTES,
            ("edge1.camp.test", "coalesced"): MINUTES,
            ("closed0.camp.test", "refused"): MINUTES,
            ("none.camp.test", "no_address"): MINUTES,
            (OPTED_OUT, "blocked"): MINUTES,
            (OWNED, "coalesced"): MINUTES * OWNED_PER_MINUTE,
        }
        owned = [slot for slot in after if slot["domain"] == OWNED]
        # Probes in flight when the server stopped may have either outcome.
        assert {slot["outcome"] for slot in owned if slot["sent_at"] >= stopped} <= {"timeout"}
        outcomes = [slot["outcome"] for slot in owned]
        assert outcomes == sorted(outcomes), "no probe after the stop may be answered"
        assert begun < last or set(outcomes) == {"coalesced", "timeout"}
        rounds = Counter(row["domain"] for row in records(run, vantage, 1, "dns_answer"))
        assert set(rounds) == {*NAMES, OWNED} and min(rounds.values()) >= 2
        captured = pq.ParquetFile(run / vantage / "1" / "dissect" / "quic_connection.parquet").read()
        assert captured.num_rows == PROBED

    counted = sql(world, COUNT)
    (total,) = sql(world, "SELECT sum(slots) AS slots, sum(probed) AS probed FROM watch_coverage")
    assert counted == [total] == [{"slots": 4 * (PROBED + 2 * MINUTES), "probed": 4 * PROBED}]
    hours = sql(world, "SELECT * FROM watch_hourly WHERE vantage = 'east'")
    assert {row["first_answer"] for row in hours} == {"coalesced"}
    assert {(row["purpose"], row["cdn"]) for row in hours} == {
        ("watch", "Cloudflare"),
        ("owned", "Cloudflare"),
    }
    # A watch is not a campaign: Table 1 does not show it. Loading it again changes nothing.
    assert sql(world, "SELECT * FROM table1") == []
    world.firstflight("load", run.name)
    assert sql(world, COUNT) == counted
    assert "cannot be resumed" in world.campaign("--resume", run.name).stderr


def test_a_stalled_prober_and_a_stopped_watch_leave_no_slot_out(world: CampaignWorld) -> None:
    before = set(world.runs())
    file = settings(world, "stalled.toml", vantages='[[vantage]]\nname = "east"\ninterface = "lo"\n')
    watch = subprocess.Popen(
        [*FIRSTFLIGHT, "watch", "--config", str(file), "--period", "600"],
        env=world.environment,
        cwd=world.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    (run,) = until(lambda: set(world.runs()) - before, "a run folder")
    folder = run / "east" / "1" / "watch"
    until((folder / "period.json").is_file, "a period")
    start = json.loads((folder / "period.json").read_text())["start_ns"]
    until(lambda: probed_since(folder, start), "the first probes of the period")
    stage = json.loads((folder / "report.json").read_text())["pid"]
    (prober,) = running(stage, "firstflight-prober")
    halt(prober)
    stalled = time.time_ns()
    time.sleep(GRACE_MS / 1000 + 2)
    resumed = time.time_ns()
    os.kill(prober, signal.SIGCONT)
    until(lambda: probed_since(folder, resumed + SECOND_NS), "probes afterwards")
    world.firstflight("runs", "stop", run.name)
    _, messages = watch.communicate(timeout=PATIENCE_S)
    assert watch.returncode == 130, messages
    assert "stopped gracefully" in messages
    assert json.loads(world.firstflight("runs", "--format", "jsonl", run.name).stdout)["state"] == "stopped"

    slots = check_slots(run, "east", 1, 600)
    reasons = Counter(slot["reason"] for slot in slots)
    assert "cut" not in reasons, "outstanding probes were completed"
    assert reasons["late"] >= 3 and reasons["stopped"] > 1000
    too_late = resumed - GRACE_MS * 1_000_000
    for slot in slots:
        if slot["reason"] == "late":
            assert slot["late_us"] >= GRACE_MS * 1000
        elif stalled < slot["planned_at"] < too_late:
            assert slot["reason"] in ("blocked", "no_address"), "a stopped prober sends nothing"
    assert reasons[None] >= 2
    world.firstflight("load", run.name)
    (there,) = sql(world, f"{COUNT} WHERE run = '{run.name}'")
    assert there == {"slots": len(slots), "probed": reasons[None]}
    # The stage sends nothing while the file exists.
    refused = ["stage", "watch", "--run", run.name, "--vantage", "east", "--repetition", "2"]
    world.firstflight(*refused, expect=130)
    assert not (run / "east" / "2" / "watch").exists()
