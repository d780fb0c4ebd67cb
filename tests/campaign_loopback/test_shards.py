"""A vantage point with three shards on loopback: disjoint, complete, within its limits, each row once."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from firstflight.shard import Shard, all_of
from tests.engines import record_rows
from tests.engines.segments import rows_of
from tests.engines.shared_limits import SECOND, Sent, SharedLimits
from tests.waiting import PATIENCE_S, until

from .test_campaign import manifest
from .world import SILENT, CampaignWorld, addresses

SHARDS = all_of(3)
RATE = 24
# Low limits: each shard probes for many seconds, and the last shard starts long before the first finishes.
LIMITS = SharedLimits(len(SHARDS), prefix_rate=5, address_rate=2.5, slack_s=0.1)
# Names with the same address, in the prefix of the answering names. Each shard has some of these names.
SAME = "127.9.1.200"
NAMES = addresses() | {f"same{n}.camp.test": SAME for n in range(12)}
TARGETS = len(NAMES)
VANTAGES = '[[vantage]]\nname = "east"\ninterface = "lo"\nports = "61000-61031"\nshards = 3\n'


def part(run: Path, shard: Shard) -> Path:
    return run / "east" / "1" / shard.folder


def rows(run: Path, kind: str = "probe/quic_probe") -> list[dict[str, Any]]:
    return [
        {**row, "shard": shard}
        for shard in SHARDS
        for row in record_rows.read(part(run, shard) / f"{kind}.parquet")
    ]


def sql(world: CampaignWorld, query: str) -> list[str]:
    return world.sql(query).splitlines()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CampaignWorld]:
    made_world = CampaignWorld(
        tmp_path_factory.mktemp("world"), {name: NAMES[name] for name in NAMES.keys() - addresses()}
    )
    try:
        made_world.raise_it()
        yield made_world
    finally:
        made_world.end()


@pytest.fixture(scope="module")
def run(world: CampaignWorld) -> Path:
    """A campaign of three parallel shards. SIGKILL ends a shard while it probes; the campaign is resumed."""
    settings = world.settings("shards.toml", rate=RATE, vantages=VANTAGES)
    limits = (
        f"probe.per_address_rate={LIMITS.address_rate}",
        f"probe.per_prefix_rate={LIMITS.prefix_rate}",
        f"campaign.clock_slack_s={LIMITS.slack_s}",
        # One clock, however late a process starts.
        "clock.warn_s=3600",
    )
    process = world.start_campaign("--config", str(settings), *(f"--set={limit}" for limit in limits))
    until(world.runs, "a run folder")
    (run,) = world.runs()
    probing = [part(run, shard) / "probe" / "segments" for shard in SHARDS]
    until(
        lambda: all(folder.is_dir() and rows_of(folder) for folder in probing), "three shards probe at once"
    )
    killed = json.loads((part(run, SHARDS[1]) / "probe" / "report.json").read_text())
    assert killed["state"] == "running"
    os.kill(killed["pid"], signal.SIGKILL)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1, err
    assert "east, repetition 1, shard 1/3: killed by SIGKILL" in err
    assert manifest(run)["state"] == "failed"
    (entry,) = world.firstflight("runs", run.name, expect=None).stdout.splitlines()[:1]
    assert "0 of 1 (vantage point, repetition) done" in entry
    left = world.firstflight("campaign", "run", "--resume", run.name, "--dry-run", expect=None).stdout
    assert "to do: east, repetition 1, shard 1/3: probe, dissect" in left and "shard 0/3" not in left
    rows_before = {(row["domain"], row["ip"], row["sent_at"]) for row in rows_of(probing[1])}
    done = world.campaign("--resume", run.name)
    assert done.returncode == 0, done.stderr
    # Rows from before the kill are kept, and no target is probed twice.
    of_shard = [row for row in rows(run) if row["shard"] == SHARDS[1]]
    assert rows_before and rows_before <= {(row["domain"], row["ip"], row["sent_at"]) for row in of_shard}
    assert len({(row["domain"], row["ip"]) for row in of_shard}) == len(of_shard)
    assert out.splitlines()[-1] == run.name
    return run


def test_each_name_is_probed_once_by_the_shard_that_resolved_it(run: Path) -> None:
    probed = rows(run)
    assert Counter(row["domain"] for row in probed) == Counter(list(NAMES))
    shard_of = {row["domain"]: row["shard"] for row in rows(run, "resolve/dns_answer")}
    assert shard_of.keys() == {*NAMES, "none.camp.test"}
    assert all(row["shard"] == shard_of[row["domain"]] for row in probed)
    assert {row["shard"] for row in probed} == set(SHARDS)
    counts = manifest(run)["counts"]
    assert isinstance(counts, dict)
    assert (counts["targets"], counts["refused"]) == (TARGETS, SILENT + list(NAMES.values()).count(SAME))


def test_the_captures_hold_each_connection_once(run: Path) -> None:
    sent = [row for row in rows(run) if row["sent_at"] is not None]
    seen = Counter(row["client_scid"] for row in rows(run, "dissect/quic_connection"))
    # The killed shard's unfinished probes are in its first capture, and again in its second. Packets that the
    # kernel still held at the kill are in no capture.
    of_killed_shard = {row["client_cid"] for row in sent if row["shard"] == SHARDS[1]}
    others = {row["client_cid"] for row in sent} - of_killed_shard
    assert {cid: number for cid, number in seen.items() if cid not in of_killed_shard} == dict.fromkeys(
        others, 1
    )
    assert seen.keys() & of_killed_shard


def test_the_limits_hold_for_all_shards_together(run: Path) -> None:
    probed = [row for row in rows(run) if row["sent_at"] is not None]
    times = sorted(row["sent_at"] for row in probed)
    most = max(sum(begin <= time < begin + SECOND for time in times) for begin in times)
    assert most <= RATE + len(SHARDS)
    # The prefixes' limit is lower: each engine has its share of the rate.
    summaries = [json.loads((part(run, shard) / "probe/summary.json").read_text()) for shard in SHARDS]
    assert sum(summary["rate"] for summary in summaries) == RATE
    sent = [Sent(row["sent_at"], row["sent_at"], row["shard"].index, row["ip"]) for row in probed]
    assert len({probe.who for probe in sent if probe.ip == SAME}) == len(SHARDS)
    LIMITS.check(sent)


def test_each_part_is_in_the_store_once(world: CampaignWorld, run: Path) -> None:
    condition = f"WHERE run = '{run.name}'"

    def stored() -> list[list[str]]:
        return [
            sql(world, f"SELECT count(), uniqExact(domain) FROM quic_probe {condition}"),
            sql(world, f"SELECT uniqExact(domain) FROM dns_answer {condition}"),
            sql(world, f"SELECT count() FROM quic_connection {condition}"),
            sql(world, f"SELECT sum(probes) FROM probe_day {condition}"),
            sql(
                world,
                f"SELECT unit, state, version FROM load_file FINAL {condition} AND kind LIKE 'q%' ORDER BY 1",
            ),
        ]

    before = stored()
    assert before[0] == [f"{TARGETS}\t{TARGETS}"] and before[1] == [str(TARGETS + 1)]
    assert before[2] == [str(len(rows(run, "dissect/quic_connection")))]
    assert before[3] == [str(TARGETS)]
    assert len(before[4]) == 2 * len(SHARDS) and all("loaded" in line for line in before[4])
    key = ("--run", run.name, "--vantage", "east", "--repetition", "1")
    for more in (["--shard", "2/3"], []):
        done = world.firstflight("stage", "load", *key, *more, expect=None)
        assert done.returncode == 0, done.stderr
        assert stored() == before
    # A shard that is measured again replaces its own rows.
    done = world.firstflight("stage", "probe", "load", *key, "--shard", "2/3", "--again", expect=None)
    assert done.returncode == 0, done.stderr
    after = stored()
    assert after[:4] == before[:4]
    changed = [row for row, other in zip(before[4], after[4], strict=True) if row != other]
    assert len(changed) == 1 and "2/3" in changed[0]


def test_rows_of_another_shard_are_refused_before_they_are_stored(
    world: CampaignWorld, run: Path, tmp_path: Path
) -> None:
    # The store counts and replaces a part by its captures, so it would never find these rows again.
    copy = tmp_path / run.name
    shutil.copytree(run, copy)
    replaced, other = (part(copy, shard) / "dissect" / "quic_connection.parquet" for shard in SHARDS[1::-1])
    shutil.copyfile(other, replaced)
    question = f"SELECT count() FROM quic_connection WHERE run = '{run.name}'"
    before = sql(world, question)
    done = world.firstflight("load", str(replaced), expect=None)
    outside = f"rows are of captures outside {run.name}/east/1/{SHARDS[1].folder}/"
    assert done.returncode == 1 and outside in done.stderr, done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert sql(world, question) == before


@pytest.mark.parametrize(
    ("shard", "message"),
    [
        ([], "east has 3 shards in run"),
        (["--shard", "0/4"], "has no shard 0/4: east has vantage.shards = 3"),
        (["--shard", "0/1"], "has no shard 0/1"),
        (["--shard", "3/3"], "there is no shard 3/3: write K/N"),
        (["--shard", "first"], "'first' is not a shard: write K/N"),
    ],
)
def test_a_missing_shard_is_refused(world: CampaignWorld, run: Path, shard: list[str], message: str) -> None:
    key = ("--run", run.name, "--vantage", "east", "--repetition", "1")
    done = world.firstflight("stage", "probe", *key, *shard, expect=None)
    assert done.returncode == 2 and message in done.stderr and len(done.stderr.splitlines()) == 1


def test_trace_finds_a_row_in_its_shard(world: CampaignWorld, run: Path) -> None:
    done = world.firstflight(
        "trace", run.name, "east", "edge3.camp.test", addresses()["edge3.camp.test"], expect=None
    )
    assert done.returncode == 0 and "initial" in done.stdout, done.stderr
