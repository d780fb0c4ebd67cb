"""The resolve stage on runs on disk: rows, accounting, a resolver that fails, interruption."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from crawler.lists import stage as targets
from firstflight.errors import InputError, UsageError
from firstflight.run.run import Run
from firstflight.system import binaries, files
from firstflight.system.reporting import progress
from scanner.driver.segments import closed_segments
from scanner.resolve import stage as resolve
from scanner.resolve.native import ResolverDown
from schemas import records
from tests.engines import record_rows
from tests.resolve.conftest import MakeRun
from tests.resolve.named import Named
from tests.waiting import PATIENCE_S, until


def rows_of(run: Run) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = record_rows.read(run.layout.dns_answer(run.key("here", 1)))
    return found


def rows_in(segment: Path) -> int:
    with pa.memory_map(str(segment)) as source:
        return int(pa.ipc.open_file(source).read_all().num_rows)


def at_rate(run: Run, rate: int) -> Run:
    """Return the run with another rate of questions."""
    settings = files.read_json(run.layout.settings)
    settings["resolve"]["rate"] = rate
    files.write_json(run.layout.settings, settings)
    return Run(run.path)


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


def test_without_targets_the_message_says_what_to_do(make_run: MakeRun) -> None:
    with pytest.raises(InputError, match="run the targets stage of this run first"):
        run = make_run(["a.test"])
        resolve.stage(run, run.key("here", 1))


def test_rows_survive_a_dead_resolver_and_the_stage_resumes(
    tmp_path: Path, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scanner.resolve.native.SILENCE", 5)
    folder = tmp_path / "named"
    folder.mkdir()
    names = [f"n{i}.example.test" for i in range(300)]
    zone = "".join(f"n{i} 60 IN A 198.18.3.{i % 250 + 1}\n" for i in range(300))
    server = Named(folder, {"example.test": zone})
    server.start()
    try:
        # At this rate the questions take half a minute: no stall lets them end before the resolver does.
        run = make_run(names, resolver="127.0.0.1", port=server.port, rate=30, timeout_s=60, attempts=1)
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
        run = at_rate(run, 10_000)
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


def test_sigterm_ends_in_order_and_the_next_start_resumes(named: Named, make_run: MakeRun) -> None:
    names = [f"n{i}.example.test" for i in range(200)]
    run = make_run(names, resolver="127.0.0.1", port=named.port, rate=20, concurrency=4)
    targets.stage(run)
    command = [sys.executable, "-m", "cli", "stage", "resolve", "--run", run.id, "--vantage", "here"]
    process = subprocess.Popen(
        [*command, "--repetition", "1"], stderr=subprocess.PIPE, env=os.environ, text=True
    )
    folder = run.layout.stage("resolve", run.key("here", 1))
    until(lambda: list((folder / "segments").glob("seg-*.arrow")), "a segment")
    process.send_signal(signal.SIGTERM)
    _, stderr = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130, stderr
    assert "Traceback" not in stderr
    assert "finished results are kept" in stderr
    written_segments = list((folder / "segments").glob("seg-*.arrow"))
    assert written_segments
    before = sum(rows_in(path) for path in written_segments)
    # At 20 questions per second the rest takes half a minute: no stall makes the first start finish.
    assert 0 < before < 600
    run = at_rate(run, 10_000)
    started_ns = time.time_ns()
    resolve.stage(run, run.key("here", 1))
    rows = rows_of(run)
    assert len(rows) == 600
    # Names with answers are not queried again.
    assert sum(row["asked_at"] < started_ns for row in rows) == before


def test_several_resolvers_share_the_names(tmp_path: Path, named: Named, make_run: MakeRun) -> None:
    folder = tmp_path / "second"
    folder.mkdir()
    second = Named(folder)
    second.start()
    try:
        names = [f"n{i}.example.test" for i in range(100)]
        labels = [f"127.0.0.1#{server.port}" for server in (named, second)]
        run = make_run(names, resolvers=[labels[0], f"{labels[1]},weight=3"], rate=10_000)
        targets.stage(run)
        resolve.stage(run, run.key("here", 1))
    finally:
        second.stop()
    rows = rows_of(run)
    by_resolver = Counter(row["resolver"] for row in rows)
    assert set(by_resolver) == set(labels)
    # 300 questions in shares of 1 to 3: 75 and 225, within many standard deviations.
    assert 30 < by_resolver[labels[0]] < 130


def with_timeouts(segment: Path, line: int) -> None:
    """Change the status of all rows for a line to TIMEOUT."""
    with pa.memory_map(str(segment)) as source:
        table = pa.ipc.open_file(source).read_all()
    place = table.schema.get_field_index("status")
    rows = zip(table["target"].to_pylist(), table["status"].to_pylist(), strict=True)
    statuses = pa.array(["TIMEOUT" if target == line else status for target, status in rows])
    table = table.set_column(place, table.schema.field(place), statuses)
    changed = segment.with_suffix(".new")  # the segment itself is mapped
    with pa.OSFile(str(changed), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    changed.rename(segment)


def test_an_unanswered_name_is_resolved_again(named: Named, make_run: MakeRun) -> None:
    names = ["www.example.test", "two.example.test", "nope.example.test"]
    run = make_run(names, resolver="127.0.0.1", port=named.port, rate=1000)
    targets.stage(run)
    key = run.key("here", 1)
    folder = run.layout.stage("resolve", key)
    segments = folder / "segments"
    segments.mkdir(parents=True)
    silent = ["--resolver", f"127.0.0.1:{named.port}", "--types", "A,AAAA,HTTPS", "--segments", str(segments)]
    (folder / "names.txt").write_text("".join(f"{name}\n" for name in names))
    program = [str(binaries.find("firstflight-resolve")), "--names", str(folder / "names.txt"), *silent]
    subprocess.run(program, check=True, capture_output=True)
    for segment in closed_segments(segments):
        with_timeouts(segment, line=1)
    again_ns = time.time_ns()
    resolve.stage(run, key)
    rows = rows_of(run)
    assert {row["domain"] for row in rows if row["asked_at"] > again_ns} == {"www.example.test"}
    assert {(row["domain"], row["qtype"]) for row in rows if row["status"] == "TIMEOUT"} == set()
    assert [row["rank"] for row in rows if row["domain"] == "nope.example.test"] == [3, 3, 3]


def test_a_list_that_changed_under_segments_is_refused(named: Named, make_run: MakeRun) -> None:
    run = make_run(["www.example.test"], resolver="127.0.0.1", port=named.port)
    targets.stage(run)
    folder = run.layout.stage("resolve", run.key("here", 1))
    (folder / "segments").mkdir(parents=True)
    (folder / "names.txt").write_text("other.example.test\n")
    empty = pa.table({"domain": pa.array([], pa.string())})
    with pa.ipc.new_file(str(folder / "segments" / "seg-000001.arrow"), empty.schema) as segment:
        segment.write_table(empty)
    with pytest.raises(UsageError, match="run the resolve stage with --again"):
        resolve.stage(run, run.key("here", 1))
