"""A campaign with pairs of probe and handshake: each side once, in the random order, also after SIGKILL."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.engines import record_rows
from tests.engines.segments import rows_of
from tests.waiting import PATIENCE_S, until

from .stopping import halted, stop
from .test_campaign import manifest
from .world import ANSWERING, OPTED_OUT, SILENT, CampaignWorld, addresses

BLOCK = 30
VANTAGES = '[[vantage]]\nname = "east"\ninterface = "lo"\nports = "61000-61031"\n'


def campaign(world: CampaignWorld, **calibrate: object) -> list[str]:
    """Return the arguments for a campaign with pairs and these settings."""
    path = world.settings("calibrate.toml", rate=200, vantages=VANTAGES)
    changes = {"enabled": "true", "share": 1, "block": BLOCK, "gap_s": 0.1, **calibrate}
    more = [
        *("probe.per_address_rate=0", "capture.enabled=false", "probe.attempts=2"),
        # Longer than an engine is halted.
        *("probe.timeout_s=60", "handshake.timeout_s=60"),
    ]
    return ["--config", str(path), *(f"--set=calibrate.{k}={v}" for k, v in changes.items())] + [
        f"--set={x}" for x in more
    ]


def pairs_of(run: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = record_rows.read(run / "east" / "1" / "calibrate" / "calibration.parquet")
    return rows


@pytest.fixture(scope="module")
def run(world: CampaignWorld) -> Path:
    """All names in three blocks. SIGKILL ends the stage in the second block, and the campaign is resumed."""
    process = world.start_campaign(*campaign(world, rate=8))
    until(world.runs, "a run folder")
    (run,) = world.runs()
    folder = run / "east" / "1" / "calibrate"
    step = folder / "blocks" / "000002" / "2-handshake" / "segments"
    until(lambda: step.is_dir() and rows_of(step), "the second block is under way")
    os.kill(json.loads((folder / "report.json").read_text())["pid"], signal.SIGKILL)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1, err
    before_stop = {
        (row["domain"], row["sent_at"])
        for path in (folder / "blocks").rglob("segments")
        for row in rows_of(path)
    }
    assert before_stop and (folder / "pairs" / "000001.arrow").is_file()
    first = (folder / "pairs" / "000001.arrow").stat().st_mtime_ns
    done = world.campaign("--resume", run.name)
    assert done.returncode == 0, done.stderr
    found = pairs_of(run)
    sent = {(row["domain"], row[f"{side}_sent_at"]) for row in found for side in ("probe", "handshake")}
    assert before_stop <= sent, "a target was contacted twice"
    assert all(row["probe_sent_at"] is None or row["probe_sent_at"] < first for row in found[:BLOCK])
    return run


def test_every_name_is_a_pair_and_both_sides_agree(run: Path) -> None:
    found = pairs_of(run)
    assert Counter(row["domain"] for row in found) == Counter(list(addresses()))
    for row in found:
        name, sides = row["domain"], (row["probe_outcome"], row["handshake_outcome"])
        if name == OPTED_OUT:
            assert sides == ("blocked", "blocked")
            assert (row["probe_sent_at"], row["handshake_sent_at"]) == (None, None)
        elif name.startswith("closed"):
            assert (sides, row["cdn"]) == (("refused", "refused"), "Others")
        else:
            assert (row["handshake_outcome"], row["handshake_stage"]) == ("done", "response")
            assert row["probe_outcome"] == row["handshake_first_answer"] == "coalesced"
            assert row["probe_ack_to_sh_us"] == row["handshake_ack_to_sh_us"] == 0
            assert (row["cdn"], row["probe_attempts"]) == ("Cloudflare", 1)
            assert 0 < row["handshake_sh_us"] <= row["handshake_handshake_us"]


def test_the_order_alternates_and_the_sides_are_close(run: Path) -> None:
    found = pairs_of(run)
    assert [row["block"] for row in found] == [1 + n // BLOCK for n in range(len(found))]
    for block in (1, 2):
        first = Counter(row["first"] for row in found if row["block"] == block)
        assert first == {"probe": BLOCK // 2, "handshake": BLOCK // 2}
    for row in found:
        if row["probe_sent_at"] is not None:
            assert (row["probe_sent_at"] < row["handshake_sent_at"]) == (row["first"] == "probe")
    ends = [  # blocks follow each other
        [row[f"{side}_sent_at"] for row in found if row["block"] == n for side in ("probe", "handshake")]
        for n in (1, 2, 3)
    ]
    times = [[at for at in block if at is not None] for block in ends]
    assert max(times[0]) < min(times[1]) and max(times[1]) < min(times[2])


def test_nothing_is_left_but_the_record_file_and_the_counts(run: Path, world: CampaignWorld) -> None:
    folder = run / "east" / "1" / "calibrate"
    assert not (folder / "pairs").exists() and not (folder / "blocks").exists()
    counts = manifest(run)["counts"]
    assert isinstance(counts, dict)
    pairs = {name: counts[name] for name in counts if name.startswith("pairs")}
    assert pairs == {
        "pairs": len(addresses()),
        "pairs_sent": ANSWERING + SILENT,
        "pairs_agreed": ANSWERING,
        "pairs_disagreed": 0,
        "pairs_not_compared": SILENT + 1,
    }
    assert counts["targets"] == len(addresses()), "pairs are no probes"
    text = f"SELECT count(), countIf(probe_outcome = 'coalesced') FROM calibration WHERE run = '{run.name}'"
    assert world.sql(text) == f"{len(addresses())}\t{ANSWERING}\n"


def test_a_stopped_stage_keeps_complete_blocks_and_resumes(run: Path, world: CampaignWorld) -> None:
    process = world.start_campaign(*campaign(world, rate=8, limit=40, block=20))
    until(lambda: len(world.runs()) == 2, "a run folder")
    (other,) = set(world.runs()) - {run}
    folder = other / "east" / "1" / "calibrate"
    until((folder / "blocks" / "000002").is_dir, "the second block begins")
    stop(world, other, [halted(folder)])
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130, err
    report = json.loads((folder / "report.json").read_text())
    assert (report["state"], report["rows_out"], report["facts"]["not_connected"]) == ("interrupted", 20, 20)
    done = world.campaign("--resume", other.name)
    assert done.returncode == 0, done.stderr
    assert len(pairs_of(other)) == 40 and len({row["domain"] for row in pairs_of(other)}) == 40
