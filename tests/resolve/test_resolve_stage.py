"""The resolve stage on runs on disk: rows, accounting, a resolver that fails, interruption."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from crawler.lists import stage as targets
from firstflight.errors import InputError
from firstflight.run.run import Run
from firstflight.system import progress
from scanner.resolve import stage as resolve
from scanner.resolver.engine import ResolverDown
from schemas import records
from tests.resolve.conftest import MakeRun
from tests.resolve.named import Named
from tests.waiting import until


def rows_of(run: Run) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(run.layout.dns_answer(run.key("here", 1))).to_pylist()
    return found


def test_every_name_has_rows_for_every_type(named: Named, make_run: MakeRun) -> None:
    names = [
        "www.example.test",
        "two.example.test",
        "alias.example.test",
        "nope.example.test",
        "x.broken.test",
    ]
    run = make_run(names, resolver="127.0.0.1", port=named.port, rate=1000, attempts=2)
    targets.stage(run)
    resolve.stage(run, run.key("here", 1))
    rows = rows_of(run)
    assert {(row["domain"], row["qtype"]) for row in rows} == {
        (name, qtype) for name in names for qtype in ("A", "AAAA", "HTTPS")
    }
    by_key = {(row["domain"], row["qtype"], row["answer_rank"]): row for row in rows}
    assert len(by_key) == len(rows)
    two = {by_key["two.example.test", "A", place]["address"] for place in (0, 1)}
    assert two == {"198.18.0.7", "198.18.0.8"}
    alias = by_key["alias.example.test", "AAAA", 0]
    assert alias["cname_chain"] == ["hop.cdn.test", "edge.cdn.test"]
    assert (alias["cname_ttls"], alias["ttl"], alias["rank"]) == ([120, 30], 20, 3)
    https = by_key["www.example.test", "HTTPS", 0]
    assert (https["https_alpn"], https["https_ech"], https["address"]) == (["h3", "h2"], True, None)
    failed = by_key["x.broken.test", "A", None]
    assert (failed["status"], failed["rcode"], failed["attempts"], failed["address"]) == (
        "SERVFAIL",
        2,
        2,
        None,
    )
    assert {row["resolver"] for row in rows} == {f"127.0.0.1#{named.port}"}
    statuses = records.load("dns_answer").column("status").values
    assert {row["status"] for row in rows} <= set(statuses)
    report = run.report("resolve", run.key("here", 1))
    assert report is not None
    assert (report.rows_in, report.rows_out, report.state) == (5, len(rows), "done")
    assert report.counts["A_NOERROR"] == 3
    assert report.counts["A_NXDOMAIN"] == report.counts["A_SERVFAIL"] == 1
    assert not (run.layout.stage("resolve", run.key("here", 1)) / "segments").exists()


def test_without_targets_it_says_what_to_do(make_run: MakeRun) -> None:
    with pytest.raises(InputError, match="run the targets stage of this run first"):
        run = make_run(["a.test"])
        resolve.stage(run, run.key("here", 1))


def test_resolver_that_dies_keeps_rows_and_the_stage_goes_on(
    tmp_path: Path, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scanner.resolver.engine.SILENCE", 5)
    folder = tmp_path / "named"
    folder.mkdir()
    names = [f"n{i}.example.test" for i in range(300)]
    zone = "".join(f"n{i} 60 IN A 198.18.3.{i % 250 + 1}\n" for i in range(300))
    server = Named(folder, {"example.test": zone})
    server.start()
    try:
        run = make_run(names, resolver="127.0.0.1", port=server.port, rate=300, timeout_s=0.3, attempts=1)
        targets.stage(run)

        def stop_when_begun() -> None:
            until(lambda: (state := progress.read(folder_of_stage)) and state.done > 0, "the first answers")
            server.stop()

        folder_of_stage = run.layout.stage("resolve", run.key("here", 1))
        killer = threading.Thread(target=stop_when_begun)
        killer.start()
        with pytest.raises(ResolverDown, match=r"(\d+) of 300 names are done and kept") as caught:
            resolve.stage(run, run.key("here", 1))
        killer.join()
        assert not run.layout.dns_answer(run.key("here", 1)).exists()
        assert not run.done("resolve", run.key("here", 1))
        server.start()
        resolve.stage(run, run.key("here", 1))
    finally:
        server.stop()
    assert caught.value.exit_status == 3
    rows = rows_of(run)
    addresses = {row["domain"]: row["address"] for row in rows if row["qtype"] == "A"}
    assert addresses == {f"n{i}.example.test": f"198.18.3.{i % 250 + 1}" for i in range(300)}
    assert len(rows) == 900
    # Some rows are older than the second start: they were kept.
    first, last = min(row["asked_at"] for row in rows), max(row["asked_at"] for row in rows)
    report = run.report("resolve", run.key("here", 1))
    assert report is not None
    assert first < report.started_at.timestamp() * 1e9 < last


def test_sigterm_ends_in_order_and_the_next_start_goes_on(named: Named, make_run: MakeRun) -> None:
    names = [f"n{i}.example.test" for i in range(200)]
    run = make_run(names, resolver="127.0.0.1", port=named.port, rate=100, concurrency=4)
    targets.stage(run)
    command = [sys.executable, "-m", "cli", "stage", "resolve", "--run", run.id, "--vantage", "here"]
    process = subprocess.Popen(
        [*command, "--repetition", "1"], stderr=subprocess.PIPE, env=os.environ, text=True
    )
    folder = run.layout.stage("resolve", run.key("here", 1))
    until(lambda: list((folder / "segments").glob("seg-*.parquet")), "a segment")
    process.send_signal(signal.SIGTERM)
    _, stderr = process.communicate(timeout=120)
    assert process.returncode == 130, stderr
    assert "Traceback" not in stderr
    assert "what was resolved is kept" in stderr
    kept = list((folder / "segments").glob("seg-*.parquet"))
    assert kept
    before = sum(pq.read_metadata(path).num_rows for path in kept)
    assert 0 < before < 600
    started_ns = time.time_ns()
    resolve.stage(run, run.key("here", 1))
    rows = rows_of(run)
    assert len(rows) == 600
    # Names with answers are not queried again.
    assert sum(row["asked_at"] < started_ns for row in rows) == before
