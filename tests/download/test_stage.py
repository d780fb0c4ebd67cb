"""The download stage in a run: record file, killed and resumed, a client that dies, the store."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from firstflight.run.run import Run
from schemas import records
from tests.download.runs import FILES, HERE, SETS, child_of, pause, stage, wait_for_answers
from tests.download.world import SERVER_V4, SERVER_V6, DownloadWorld
from tests.processes import halt
from tests.waiting import until


def test_rows_reach_the_store(world: DownloadWorld, run: Callable[..., Run]) -> None:
    made = run()
    stage(world, made)
    key = made.key("here", 1)
    kind = records.load("download")
    table = pq.read_table(made.layout.downloads(key))
    assert table.schema.equals(kind.arrow_schema())
    found = {(row["url"].rpartition("/")[2], row["ip"], row["set"]): row for row in table.to_pylist()}
    assert len(found) == table.num_rows == len(FILES) * (1 + len(SETS))
    for (_, ip, name), row in found.items():
        assert row["outcome"] == ("done" if ip else "no_address")
        assert (row["asn"], row["cdn"]) == {
            SERVER_V4: (13335, "Cloudflare"),
            SERVER_V6: (None, None),
            None: (None, None),
        }[ip]
        capture = f"{made.id}/here/1/download/{name}.pcap"
        assert row["capture_file"] == (capture if ip else None)
    report = made.report("download", key)
    assert report is not None
    assert report.counts == {"done": 6, "no_address": 3}
    assert report.rows_in == report.rows_out == 9
    assert report.facts["files_Cloudflare"] == 1
    assert any("Cloudflare has 1 files, fewer than the 200 to draw" in line for line in report.warnings)
    done = world.run("load", made.id)
    assert done.returncode == 0, done.stderr
    queried = world.run(
        *("sql", "--format", "TSV"),
        "SELECT set, iteration, count(), countIf(download_throughput_bps > 0) FROM download "
        "WHERE outcome = 'done' GROUP BY ALL ORDER BY toString(set)",
    )
    assert queried.stdout.splitlines() == ["all14\t1\t2\t2", "bl\t1\t2\t2", "warmup\t1\t2\t2"], queried.stderr


@pytest.mark.parametrize("at", [1, 3, 5])
def test_killed_and_gone_on_every_download_is_one_row(
    world: DownloadWorld, run: Callable[..., Run], at: int
) -> None:
    """An interrupted target is never resumed: its missing downloads are `skipped`."""
    made = run()
    key = made.key("here", 1)
    answers = made.layout.stage("download", key) / "answers.jsonl"
    pause(made, 2)
    process = world.start("stage", "download", "--run", made.id, *HERE)
    wait_for_answers(process, answers, at)
    process.send_signal(signal.SIGKILL)
    process.wait()
    pause(made, 0.05)
    before = answers.read_bytes()
    stage(world, made)
    assert answers.read_bytes().startswith(before[: before.rfind(b"\n") + 1])
    rows = pq.read_table(made.layout.downloads(key)).to_pylist()
    planned = Counter((row["url"], row["ip"], row["set"]) for row in rows)
    assert set(planned.values()) == {1}
    assert len(planned) == len(FILES) * (1 + len(SETS))
    outcomes = Counter(row["outcome"] for row in rows)
    assert outcomes["done"] + outcomes["skipped"] == 6
    assert outcomes["skipped"] <= 2, "only the run that was cut off"
    # The kernel delivers packets to a capture a second late, so the kill may have cost it the first ones.
    kept_rows = before.count(b"\n")
    assert all(row["flow_started_at"] for row in rows[kept_rows:] if row["outcome"] == "done")


@pytest.mark.parametrize("at", [5, 6])
def test_killed_when_no_target_is_left_keeps_what_was_captured(
    world: DownloadWorld, run: Callable[..., Run], tmp_path: Path, at: int
) -> None:
    """The second of two targets is started or complete, so no further session opens."""
    made = run()
    targets = FILES[:2]
    (tmp_path / "files.csv").write_text("url,ip\n" + "".join(f"{world.url(p)},{ip}\n" for p, ip in targets))
    key = made.key("here", 1)
    answers = made.layout.stage("download", key) / "answers.jsonl"
    pause(made, 2)
    process = world.start("stage", "download", "--run", made.id, *HERE)
    wait_for_answers(process, answers, at)
    halt(process.pid)
    entries = [json.loads(line) for line in answers.read_bytes().splitlines()]

    def are_captured() -> bool:
        return all(has_packets_of(answers.parent, entry) for entry in entries)

    until(are_captured, "packets of each download in its capture")
    process.send_signal(signal.SIGKILL)
    process.wait()
    left_over = answers.with_name("native.x") / "tcp_flow.parquet"
    left_over.parent.mkdir()
    left_over.write_bytes(b"PAR1")
    stage(world, made)
    assert not [*answers.parent.glob("native.*")]
    rows = pq.read_table(made.layout.downloads(key)).to_pylist()
    assert [row["outcome"] for row in rows] == ["done"] * len(entries) + ["skipped"] * (6 - len(entries))
    assert all(row["flow_started_at"] and row["options_as_set"] for row in rows[: len(entries)])


def has_packets_of(folder: Path, entry: dict[str, Any]) -> bool:
    """Return whether the set's capture has a packet with the download's port; the capture may be open."""
    (capture,) = folder.glob(f"{entry['set']}.pcap*")
    argv = ["tcpdump", "-n", "-c", "1", "-r", str(capture), "port", str(entry["answer"]["client_port"])]
    return b" > " in subprocess.run(argv, capture_output=True, check=False).stdout


def test_a_client_that_is_killed_fails_one_download(world: DownloadWorld, run: Callable[..., Run]) -> None:
    made = run()
    key = made.key("here", 1)
    answers = made.layout.stage("download", key) / "answers.jsonl"
    process = world.start("stage", "download", "--run", made.id, *HERE)
    client = child_of(process.pid, f"SSLKEYLOGFILE={answers.with_name('bl.keys')}")
    wait_for_answers(process, answers, 1)
    os.kill(client, signal.SIGKILL)
    assert process.wait() == 0
    rows = pq.read_table(made.layout.downloads(key)).to_pylist()
    outcomes = Counter(row["outcome"] for row in rows)
    # A kill during a download fails that download; a kill between two downloads fails no download.
    assert outcomes["done"] >= 5
    assert outcomes["done"] + outcomes["failed"] == 6
    assert all("ended with status -9" in row["detail"] for row in rows if row["outcome"] == "failed")


def test_the_stop_file_ends_the_stage_with_a_row_for_each_started_download(
    world: DownloadWorld, run: Callable[..., Run]
) -> None:
    made = run()
    key = made.key("here", 1)
    answers = made.layout.stage("download", key) / "answers.jsonl"
    pause(made, 5)
    process = world.start("stage", "download", "--run", made.id, *HERE)
    wait_for_answers(process, answers, 1)
    made.layout.stop_file.touch()
    assert process.wait() == 130
    rows = pq.read_table(made.layout.downloads(key)).to_pylist()
    assert len(rows) % (1 + len(SETS)) == 0
    report = made.report("download", key)
    assert report is not None
    assert report.state == "interrupted"


def test_a_vantage_point_with_shards_is_refused(world: DownloadWorld, run: Callable[..., Run]) -> None:
    made = run()
    divided = json.loads(made.layout.settings.read_text())
    divided["vantage"][0]["shards"] = 2
    made.layout.settings.write_text(json.dumps(divided))
    done = world.run("stage", "download", "--run", made.id, *HERE, "--shard", "1/2")
    assert done.returncode == 2
    assert "here has 2 shards, and downloads cannot be divided" in done.stderr


def test_a_campaign_without_it_sends_nothing(world: DownloadWorld, run: Callable[..., Run]) -> None:
    made = run("")
    off = json.loads(made.layout.settings.read_text())
    off["download"]["enabled"] = False
    made.layout.settings.write_text(json.dumps(off))
    done = world.run("stage", "download", "--run", made.id, *HERE)
    assert done.returncode == 2
    assert "download.enabled is false" in done.stderr
