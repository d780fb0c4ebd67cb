"""A campaign that completes handshakes with a share of the names: each once, despite interruptions."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from firstflight.sampling import number
from firstflight.shard import Shard, all_of
from tests.engines import record_rows
from tests.engines.segments import rows_of
from tests.waiting import PATIENCE_S, until

from .quic_server import ALIASED
from .stopping import halted, halted_with, stop
from .test_campaign import manifest
from .world import ANSWERING, OPTED_OUT, SILENT, CampaignWorld, addresses

SHARDS = all_of(2)
VANTAGES = '[[vantage]]\nname = "east"\ninterface = "lo"\nports = "61000-61031"\nshards = {}\n'
KINDS = ("quic_handshake", "certificate", "http3_response")


def campaign(world: CampaignWorld, shards: int, **handshake: object) -> list[str]:
    """Return the arguments for a campaign with handshakes and these settings."""
    path = world.settings("handshakes.toml", rate=200, vantages=VANTAGES.format(shards))
    # The timeout is longer than an engine is halted.
    changes = {"enabled": "true", "timeout_s": 60, **handshake}
    limits = ["probe.per_address_rate=0", "capture.enabled=false"]
    return [
        "--config",
        str(path),
        *(f"--set=handshake.{k}={v}" for k, v in changes.items()),
        *(f"--set={x}" for x in limits),
    ]


def part(run: Path, shard: Shard) -> Path:
    """Return the folder of the handshake stage in a shard."""
    return run / "east" / "1" / shard.folder / "handshake"


def rows(run: Path, kind: str = KINDS[0]) -> list[dict[str, Any]]:
    return [row for shard in SHARDS for row in record_rows.read(part(run, shard) / f"{kind}.parquet")]


@pytest.fixture(scope="module")
def run(world: CampaignWorld) -> Path:
    """A campaign of two shards with all names. SIGKILL ends a shard while it connects; then it is resumed."""
    process = world.start_campaign(*campaign(world, 2, share=1, rate=16))
    until(world.runs, "a run folder")
    (run,) = world.runs()
    # Both are under way when one is killed.
    engines = halted_with(1, [part(run, shard) for shard in SHARDS])
    killed = json.loads((part(run, SHARDS[1]) / "report.json").read_text())
    os.kill(killed["pid"], signal.SIGKILL)
    for engine in engines:
        os.kill(engine, signal.SIGCONT)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1, err
    assert "shard 1/2: killed by SIGKILL" in err
    left = world.firstflight("campaign", "run", "--resume", run.name, "--dry-run").stdout
    assert "shard 1/2: handshake\n" in left and "shard 0/2" not in left
    rows_before = {(row["domain"], row["sent_at"]) for row in rows_of(part(run, SHARDS[1]) / "segments")}
    done = world.campaign("--resume", run.name)
    assert done.returncode == 0, done.stderr
    assert rows_before <= {(row["domain"], row["sent_at"]) for row in rows(run)}, (
        "a target was connected with twice"
    )
    return run


def test_every_name_is_connected_with_once(run: Path) -> None:
    found = rows(run)
    assert Counter(row["domain"] for row in found) == Counter(list(addresses()))
    for row in found:
        name = row["domain"]
        if name == OPTED_OUT:
            assert (row["outcome"], row["stage"], row["sent_at"]) == ("blocked", None, None)
        elif name.startswith("closed"):
            assert (row["outcome"], row["stage"], row["cdn_by_asn"]) == ("refused", "sent", "Others")
        else:
            assert (row["outcome"], row["stage"], row["http"]) == ("done", "response", "response")
            assert (row["status"], row["server_header"]) == (204, "loopback")
            assert row["cdn"] == row["cdn_by_asn"] == "Cloudflare"
    assert not any((part(run, shard) / "segments").exists() for shard in SHARDS)
    ports = [
        {row["src_port"] for row in record_rows.read(part(run, s) / f"{KINDS[0]}.parquet")} for s in SHARDS
    ]
    assert not (ports[0] & ports[1]) - {None}


def test_cdns_are_identified_by_four_methods(run: Path) -> None:
    """By AS, by the aliases that the resolve stage found, by a field of the response, by the certificate."""
    for row in rows(run):
        found = tuple(row[f"cdn_by_{method}"] for method in ("asn", "cname", "header", "certificate"))
        if row["domain"] == ALIASED:
            assert found == ("Cloudflare", "Loop", "Cloudflare", "Loop")
            assert row["edge_location"] == "HAM"
        else:
            assert row["edge_location"] is None
            done = ("Cloudflare", "Others", "Others", "Loop")
            assert found == done if row["outcome"] == "done" else found[1:] == ("Others", None, None)
    about = json.loads((run / "as_data" / "as_data.json").read_text())
    assert [source["file"] for source in about["cdn_rules_sources"]] == ["rules.toml", "cdn_rules.toml"]
    probes = pq.read_table(run / "east/1/shard-0-of-2/probe/quic_probe.parquet")["ruleset"].to_pylist()
    assert len({row["ruleset"] for row in rows(run)} | set(probes)) == 2, (
        "rules of handshakes are not of probes"
    )
    assert any(path.name.endswith("-cdn_rules.toml") for path in (run / "rules").iterdir())


def test_certificates_and_responses_belong_to_handshakes(run: Path) -> None:
    done = {(row["domain"], row["sent_at"]) for row in rows(run) if row["outcome"] == "done"}
    responses = rows(run, "http3_response")
    assert {(row["domain"], row["sent_at"]) for row in responses} == done and len(responses) == ANSWERING
    assert all(["server", "loopback"] in json.loads(row["headers"]) for row in responses)
    for shard in SHARDS:  # one server, one certificate
        (certificate,) = record_rows.read(part(run, shard) / "certificate.parquet")
        assert {row["leaf_sha256"] for row in rows(run)} == {certificate["sha256"], None}
        assert (certificate["subject"], certificate["position"]) == ("CN=edge.camp.test", 0)


def test_counts_are_printed_with_those_of_the_probes(run: Path, world: CampaignWorld) -> None:
    counts = manifest(run)["counts"]
    assert isinstance(counts, dict)
    assert (counts["handshakes"], counts["handshakes_done"]) == (len(addresses()), ANSWERING)
    assert counts["targets"] == len(addresses())
    assert counts["refused"] == counts["handshakes_refused"] == SILENT
    entry = json.loads(world.firstflight("runs", "--format", "jsonl", run.name).stdout)
    assert (entry["probes"], entry["probe_stages_done"]) == (len(addresses()), 1)
    assert entry["beside"]["handshakes"] == {
        "blocked": 1,
        "done": ANSWERING,
        "refused": SILENT,
        "sent": ANSWERING + SILENT,
    }
    assert f"\n  handshakes: sent {ANSWERING + SILENT}, " in world.firstflight("runs", run.name).stdout


def test_they_are_in_the_store(run: Path, world: CampaignWorld) -> None:
    condition = f"WHERE run = '{run.name}'"
    text = f"SELECT outcome, count(), uniqExact(leaf_sha256) FROM quic_handshake {condition} GROUP BY outcome"
    found = world.sql(text).splitlines()
    assert sorted(found) == ["blocked\t1\t0", f"done\t{ANSWERING}\t1", f"refused\t{SILENT}\t0"]
    for kind, count in (("certificate", len(SHARDS)), ("http3_response", ANSWERING)):
        assert world.sql(f"SELECT count() FROM {kind} {condition}") == f"{count}\n"


def test_a_stopped_stage_keeps_its_rows_and_resumes(run: Path, world: CampaignWorld) -> None:
    """Of a share of the names, the same ones in both repetitions."""
    process = world.start_campaign(*campaign(world, 1, share=0.9, limit=30, rate=6), "--repetitions", "2")
    until(lambda: len(world.runs()) == 2, "a run folder")
    (other,) = set(world.runs()) - {run}
    folder = other / "east" / "1" / "handshake"
    until(lambda: (folder / "segments").is_dir() and rows_of(folder / "segments"), "a closed segment")
    stop(world, other, [halted(folder)])
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130, err
    report = json.loads((folder / "report.json").read_text())
    assert report["state"] == "interrupted" and 0 < report["rows_out"] < 30
    assert report["rows_out"] + report["facts"]["not_connected"] == 30
    stopped = record_rows.read(folder / "quic_handshake.parquet")
    assert not [row["domain"] for row in stopped if row["outcome"] == "timeout"]
    done = world.campaign("--resume", other.name)
    assert done.returncode == 0, done.stderr
    seed = json.loads((other / "manifest.json").read_text())["seed"]
    drawn = sorted(addresses(), key=lambda name: number(seed, name))[:30]
    for repetition in ("1", "2"):
        found = record_rows.read(other / "east" / repetition / "handshake" / "quic_handshake.parquet")
        assert sorted(row["domain"] for row in found) == sorted(drawn)
        assert {row["repetition"] for row in found} == {int(repetition)}
