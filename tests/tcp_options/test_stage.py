"""The tcp_options stage in a run: in a masqueraded namespace that offers all options, and in the store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from firstflight import settings
from firstflight.run.run import Run
from schemas import records
from tests.campaign_loopback.world import mrt_table
from tests.download.world import SERVER_V4, SERVER_V6, DownloadWorld
from tests.store.rows import answer, write

HERE = ("--vantage", "here", "--repetition", "1", "--here")
BLOCKED = "198.18.9.77"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DownloadWorld]:
    with DownloadWorld(tmp_path_factory.mktemp("world"), rtt_us=10_000) as raised:
        yield raised


@pytest.fixture
def run(world: DownloadWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run with handwritten DNS answers, because this file does not test resolution."""
    monkeypatch.setenv("FIRSTFLIGHT_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("FIRSTFLIGHT_STORE", f"chdb:{tmp_path / 'store'}")
    (tmp_path / "names.txt").write_text("a.test\n")
    (tmp_path / "blocked.txt").write_text(f"{BLOCKED}\n")
    (tmp_path / "rib.mrt").write_bytes(mrt_table({"198.18.9.0/24": 13335}))
    (tmp_path / "c.toml").write_text("""
[targets]
source = "file"
file = "names.txt"
[as_data]
rib = "file"
files = ["rib.mrt"]
[probe]
allow_net = ["198.18.0.0/15", "2001:db8::/32"]
blocklist = ["blocked.txt"]
[tcp_options]
enabled = true
[[vantage]]
name = "here"
sources = ["198.18.9.1"]
""")
    made = Run.create(*settings.load(tmp_path / "c.toml"))
    assert world.run("stage", "as_data", "--run", made.id).returncode == 0
    common: dict[str, Any] = {"run": made.id, "vantage": "here", "repetition": 1}
    answers = [
        answer("four.test", "A", address=SERVER_V4, answer_rank=0, **common),
        answer("six.test", "AAAA", address=SERVER_V6, answer_rank=0, **common),
        answer("blocked.test", "A", address=BLOCKED, answer_rank=0, **common),
    ]
    write(made.layout.dns_answer(made.key("here", 1)), answers, "dns_answer")
    return made


def test_all_options_are_offered_and_the_rows_reach_the_store(world: DownloadWorld, run: Run) -> None:
    before = world.inside("v", "cat /proc/sys/net/ipv4/tcp_ecn")
    done = world.run("stage", "tcp_options", "--run", run.id, *HERE)
    assert done.returncode == 0, done.stderr
    key = run.key("here", 1)
    table = pq.read_table(run.layout.tcp_option(key))
    assert table.schema.equals(records.load("tcp_option").arrow_schema())
    rows = {row["domain"]: row for row in table.to_pylist()}
    assert {name: row["outcome"] for name, row in rows.items()} == {
        "four.test": "answered",
        "six.test": "answered",
        "blocked.test": "blocked",
    }
    for name in ("four.test", "six.test"):
        row = rows[name]
        # The server's kernel has Linux's defaults: it accepts ECN and all other options.
        assert (row["ecn"], row["sack"], row["window_scaling"], row["timestamps"]) == (True,) * 4
        assert row["rtt_us"] >= 10_000
        assert row["network_paused_at"] is None
    assert rows["four.test"]["cdn"] == "Cloudflare"
    assert rows["blocked.test"]["ecn"] is None
    assert world.inside("v", "cat /proc/sys/net/ipv4/tcp_ecn") == before == "2\n"
    report = run.report("tcp_options", key)
    assert report is not None
    assert report.counts == {"sent": 2, "answered": 2, "blocked": 1}
    assert not report.warnings
    assert world.run("load", run.id).returncode == 0
    asked = world.run("query", "tcp_options", "--param", f"run={run.id}", "--format", "JSONEachRow")
    found = {row["cdn"]: row for row in map(json.loads, asked.stdout.splitlines())}
    assert {name: row["answered"] for name, row in found.items()} == {"Cloudflare": 1, "Others": 1}
    assert {row["ecn_share"] for row in found.values()} == {1}


def test_without_forwarding_the_machines_options_are_offered(world: DownloadWorld, run: Run) -> None:
    """Options that the client does not offer are null, and the report tells how to enable them."""
    world.inside("v", "echo 0 > /proc/sys/net/ipv4/ip_forward")
    try:
        done = world.run("stage", "tcp_options", "--run", run.id, *HERE)
    finally:
        world.inside("v", "echo 1 > /proc/sys/net/ipv4/ip_forward")
    assert done.returncode == 0, done.stderr
    key = run.key("here", 1)
    rows = {row["domain"]: row for row in pq.read_table(run.layout.tcp_option(key)).to_pylist()}
    row = rows["four.test"]
    assert (row["ecn"], row["sack"], row["src_ip"]) == (None, True, "198.18.9.1")
    report = run.report("tcp_options", key)
    assert report is not None
    assert any("sysctl net.ipv4.ip_forward=1" in line for line in report.warnings)
