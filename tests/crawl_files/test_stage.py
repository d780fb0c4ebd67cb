"""The stage crawl in a run: record files, resuming after kill -9, the stop file, the store, the dry run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from firstflight import settings
from firstflight.run.run import Run
from schemas import records
from tests.crawl_files.world import CrawlWorld, last_crawl
from tests.waiting import PATIENCE_S, until

NAMES = ["one", "robots-503", "large", "refused", "trap"]
FIRSTFLIGHT = [sys.executable, "-P", "-m", "cli"]


@pytest.fixture
def config(world: CrawlWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FIRSTFLIGHT_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("FIRSTFLIGHT_STORE", f"chdb:{tmp_path / 'store'}")
    (tmp_path / "names.txt").write_text("".join(f"{name}.downloads.test\n" for name in NAMES))
    (tmp_path / "rib.mrt").write_bytes(b"")
    path = tmp_path / "settings.toml"
    path.write_text(
        f"""[targets]
source = "file"
file = "names.txt"
[as_data]
rib = "file"
files = ["rib.mrt"]
[resolve]
resolver = "127.0.0.1"
port = {world.named.port}
[probe]
allow_net = ["127.0.0.0/8"]
[crawl]
enabled = true
rate = 500
per_address_rate = 20
max_requests = 40
roots = "{world.authority}"
[[vantage]]
name = "here"
"""
    )
    return path


def stage(run: Run, name: str) -> subprocess.CompletedProcess[str]:
    argv = [*FIRSTFLIGHT, "stage", name, "--run", run.id]
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=PATIENCE_S)


def with_targets(config: Path) -> Run:
    run = Run.create(*settings.load(config))
    done = stage(run, "targets")
    assert done.returncode == 0, done.stderr
    return run


def at_rate(run: Run, per_second: float, name: str = "per_address_rate") -> None:
    """Set the requests per second to an address, or (`rate`) in total, for stages that start later."""
    given = json.loads(run.layout.settings.read_text())
    given["crawl"][name] = per_second
    run.layout.settings.write_text(json.dumps(given))


def test_killed_stage_resumes_and_every_name_is_one_row(config: Path, world: CrawlWorld) -> None:
    run = with_targets(config)
    at_rate(run, 1)  # the trap takes 40 s
    journal, before = run.layout.stage("crawl") / "journal.jsonl", len(world.asked("trap.downloads.test"))
    process = subprocess.Popen([*FIRSTFLIGHT, "stage", "crawl", "--run", run.id], stderr=subprocess.DEVNULL)
    until(lambda: journal.exists() and journal.read_text().count("\n") == 4, "all but the trap are done")
    until(lambda: len(world.asked("trap.downloads.test")) > before + 1, "a page of the trap")
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not run.done("crawl")
    at_rate(run, 20)
    requests_before = {name: len(world.asked(f"{name}.downloads.test")) for name in NAMES}
    done = stage(run, "crawl")
    assert done.returncode == 0, done.stderr
    after = {name: len(world.asked(f"{name}.downloads.test")) for name in NAMES}
    assert [after[name] - requests_before[name] for name in NAMES[:-1]] == [0] * (len(NAMES) - 1)
    assert len(last_crawl(world.asked("trap.downloads.test"))) == 40
    report = run.report("crawl")
    assert report is not None and run.done("crawl") and not journal.exists()
    assert report.counts == {"failed": 1, "found": 1, "limit": 1, "robots": 1, "too_large": 1}
    for kind in ("download_file", "crawl_page"):
        table = pq.read_table(run.layout.crawl(kind))
        assert table.schema.equals(records.load(kind).arrow_schema())
        assert sorted(table["domain"].to_pylist()) == sorted(f"{name}.downloads.test" for name in NAMES)
        assert set(table["run"].to_pylist()) == {run.id}
    assert stage(run, "crawl").returncode == 0  # done already
    assert len(world.asked("one.downloads.test")) == after["one"]


def test_stop_file_ends_it_before_the_next_request(config: Path, world: CrawlWorld) -> None:
    run = with_targets(config)
    at_rate(run, 1)  # the trap takes 40 s
    journal, before = run.layout.stage("crawl") / "journal.jsonl", len(world.asked("trap.downloads.test"))
    process = subprocess.Popen([*FIRSTFLIGHT, "stage", "crawl", "--run", run.id], stderr=subprocess.DEVNULL)
    until(lambda: journal.exists() and journal.read_text().count("\n") == 4, "all but the trap are done")
    until(lambda: len(world.asked("trap.downloads.test")) > before + 1, "a page of the trap")
    run.layout.stop_file.touch()
    assert process.wait(120) == 130
    report = run.report("crawl")
    assert report is not None and report.state == "interrupted"
    assert journal.read_text().count("\n") == 4
    before = len(world.asked("trap.downloads.test"))
    assert stage(run, "crawl").returncode == 130
    assert len(world.asked("trap.downloads.test")) == before
    run.layout.stop_file.unlink()
    at_rate(run, 20)
    assert stage(run, "crawl").returncode == 0
    assert pq.read_table(run.layout.crawl("download_file")).num_rows == len(NAMES)


def test_stop_file_ends_what_waits_for_the_rate(config: Path, world: CrawlWorld) -> None:
    """The first of three names starts immediately, the next after 100 s."""
    names = ["one", "two", "five"]
    (config.parent / "names.txt").write_text("".join(f"{name}.downloads.test\n" for name in names))
    run = with_targets(config)
    at_rate(run, 0.01, "rate")

    def request_count() -> int:
        return sum(len(world.asked(f"{name}.downloads.test")) for name in names)

    before = request_count()
    process = subprocess.Popen([*FIRSTFLIGHT, "stage", "crawl", "--run", run.id], stderr=subprocess.DEVNULL)
    until(lambda: request_count() > before, "the first request")
    run.layout.stop_file.touch()
    assert process.wait(90) == 130
    assert request_count() == before + 1


def test_rows_in_the_store(config: Path, world: CrawlWorld) -> None:
    run = with_targets(config)
    assert stage(run, "crawl").returncode == 0
    loaded = stage(run, "load")
    assert loaded.returncode == 0, loaded.stderr
    question = (
        "SELECT f.domain AS domain, f.outcome AS outcome, size, requests FROM download_file AS f "
        "JOIN crawl_page AS p USING (run, domain) ORDER BY domain"
    )
    argv = [*FIRSTFLIGHT, "sql", question, "--format", "JSONEachRow"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, env={**os.environ})
    found = [json.loads(line) for line in done.stdout.splitlines()]
    sites = {site.name: site for site in world.sites}
    assert [row["domain"] for row in found] == sorted(f"{name}.downloads.test" for name in NAMES)
    for row in found:
        site = sites[row["domain"]]
        assert (row["outcome"], row["size"]) == (site.outcome, site.size)
    assert Counter(row["requests"] for row in found) == Counter([3, 3, 1, 1, 40])

    argv = [*FIRSTFLIGHT, "query", "crawl_outcomes", "--param", f"run={run.id}", "--format", "JSONEachRow"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    outcomes = [json.loads(line) for line in done.stdout.splitlines()]
    columns = ("outcome", "names", "share", "mean_requests", "most_requests")
    assert [[row[name] for name in columns] for row in outcomes] == [
        ["found", 1, 0.2, 3, 3],
        ["too_large", 1, 0.2, 3, 3],
        ["robots", 1, 0.2, 1, 1],
        ["limit", 1, 0.2, 40, 40],
        ["failed", 1, 0.2, 1, 1],
    ]
    states = ("robots_rules", "robots_none", "robots_unreachable", "robots_elsewhere")
    assert [sum(row[name] for row in outcomes) for name in states] == [0, 3, 2, 0]
    assert sum(row["bytes_received"] for row in outcomes) > 0


def test_run_without_it_refuses_it(config: Path) -> None:
    run = Run.create(*settings.load(config, ["crawl.enabled=false"]))
    assert stage(run, "targets").returncode == 0
    done = stage(run, "crawl")
    assert done.returncode == 2 and "crawl" in done.stderr


def test_dry_run_prints_what_it_would_do(config: Path) -> None:
    argv = [*FIRSTFLIGHT, "campaign", "run", "--config", str(config), "--dry-run"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert "crawl: the web site of each name" in done.stdout + done.stderr
