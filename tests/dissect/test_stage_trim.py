"""The dissect stage trims captures that agree with the prober, and loses nothing when it is killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dissector import agreement, trim
from dissector.stage import stage
from firstflight import capture_files, settings
from firstflight.run.run import Run
from firstflight.system import binaries, files
from schemas import records
from tests import minimal
from tests.dissect import build as b
from tests.dissect.build import MS, CaptureBuilder
from tests.dissect.conftest import dissect, rows
from tests.engines import self_killing
from tests.waiting import until

NAMES = ("probe.pcap", "probe-2.pcap")
OTHER_CID = b"\xc2" * 8


def answered(cid: bytes, port: int) -> CaptureBuilder:
    """A probe with an answer; its last packets are Handshake packets."""
    made = CaptureBuilder(client=("192.0.2.11", port)).sent(0, b.hello_datagram(0, scid=cid))
    hello = b.initial(b.ack() + b.crypto(b.server_hello()), 0, dcid=cid)
    made.came(10 * MS, hello + b.handshake(1000).replace(b.CLIENT_CID, cid))
    return made.came(11 * MS, b.handshake(1100).replace(b.CLIENT_CID, cid))


def write_probes(path: Path, *probes: dict[str, Any]) -> None:
    kind = records.load("quic_probe")
    columns = {
        field.name: pa.array([probe.get(field.name) for probe in probes], field.type)
        for field in kind.arrow_schema()
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)


def probe(cid: bytes, **changes: Any) -> dict[str, Any]:
    """The prober's row of `answered`."""
    row = {"client_cid": cid.hex(), "outcome": "coalesced", "ack_pn": 0, "sh_pn": 0, "ack_delay_raw": 5}
    return row | changes


def make(tmp_path: Path, *overrides: str) -> Run:
    run = Run.create(*settings.load(minimal.write(tmp_path), list(overrides)))
    folder = run.layout.stage("capture", run.key("here", 1))
    folder.mkdir(parents=True)
    entry = {"interface": "lo", "filter": "udp", "snaplen": 262144, "started_ns": 1}
    files.write_json(folder / "capture.json", {"captures": [entry | {"file": name} for name in NAMES]})
    answered(b.CLIENT_CID, 1).write(folder / NAMES[0])
    answered(OTHER_CID, 2).write(folder / NAMES[1])
    write_probes(run.layout.quic_probe(run.key("here", 1)), probe(b.CLIENT_CID), probe(OTHER_CID))
    return run


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FIRSTFLIGHT_RUNS", str(tmp_path / "runs"))
    return tmp_path


def done(run: Run) -> dict[str, Any]:
    """Run the stage; return the facts and warnings, and the number of trimmed frames per capture."""
    key = run.key("here", 1)
    stage(run, key)
    report = run.report("dissect", key)
    assert report is not None and report.state == "done"
    folder = run.layout.stage("capture", key)
    assert {path.name for path in folder.iterdir()} == {*NAMES, "capture.json"}
    left = {record.file: record.trimmed for record in capture_files.records(folder)}
    assert tuple(left) == NAMES
    return {"facts": report.facts, "warnings": report.warnings, "trimmed": list(left.values())}


def missing(run: Run) -> list[int]:
    """Return the number of sent bytes, padding excluded, that each capture lacks."""
    lacking = []
    for path in run.layout.captures(run.key("here", 1)):
        content, at, sum_ = dissect(path, "--restore").stdout, 24, 0
        while at < len(content):
            captured, length = (int.from_bytes(content[at + n : at + n + 4], sys.byteorder) for n in (8, 12))
            sum_, at = sum_ + length - captured, at + 16 + captured
        lacking.append(sum_)
    return lacking


def rows_of(run: Run) -> bytes:
    return run.layout.quic_connection(run.key("here", 1)).read_bytes()


def test_captures_that_agree_with_the_prober_are_trimmed(root: Path) -> None:
    untrimmed, run = make(root, "capture.trim=false"), make(root)
    assert done(untrimmed)["trimmed"] == [None, None] and missing(untrimmed) == [0, 0]
    found = done(run)
    assert (found["trimmed"], found["warnings"], missing(run)) == ([2, 2], [], [2100, 2100])
    sizes = [
        sum(path.stat().st_size for path in each_run.layout.captures(each_run.key("here", 1)))
        for each_run in (untrimmed, run)
    ]
    assert [found["facts"][name] for name in ("capture_bytes_before", "capture_bytes")] == sizes
    # Trimming also removes the padding of two ClientHellos.
    assert sizes[0] - sizes[1] > 4200 + 2 * 700
    assert [
        record.unpadded for record in capture_files.records(run.layout.stage("capture", run.key("here", 1)))
    ] == [1, 1]
    tables = [
        pq.read_table(each_run.layout.quic_connection(each_run.key("here", 1))).drop(["run", "source_file"])
        for each_run in (untrimmed, run)
    ]
    assert tables[0].equals(tables[1])
    # A second run on the trimmed captures gives the same rows and changes no file.
    before = rows_of(run)
    assert done(run)["trimmed"] == [2, 2] and rows_of(run) == before and missing(run) == [2100, 2100]
    (probed,) = rows(run.layout.capture(run.key("here", 1)), "--kind", "quic_connection")
    assert probed["sh_to_handshake_us"] == 0


def test_a_single_capture_is_trimmed(root: Path) -> None:
    run = make(root)
    key = run.key("here", 1)
    folder = run.layout.stage("capture", key)
    entries = json.loads((folder / "capture.json").read_text())
    files.write_json(folder / "capture.json", entries | {"captures": entries["captures"][:1]})
    (folder / NAMES[1]).unlink()
    write_probes(run.layout.quic_probe(key), probe(b.CLIENT_CID))
    stage(run, key)
    assert [record.trimmed for record in capture_files.records(folder)] == [2]
    assert missing(run) == [2100]


@pytest.mark.parametrize(
    "changes", [{"outcome": "timeout"}, {"sh_pn": 1}, {"ack_pn": None}, {"ack_delay_raw": 6}], ids=str
)
def test_connections_that_differ_are_not_trimmed(
    root: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
) -> None:
    run = make(root)
    write_probes(run.layout.quic_probe(run.key("here", 1)), probe(b.CLIENT_CID, **changes), probe(OTHER_CID))
    assert missing(run) == [0, 0]
    found = done(run)
    (warning,) = found["warnings"]
    assert warning.startswith("captures are kept whole: 1 of 2 probes differ from them; `firstflight trace`")
    assert (found["trimmed"], missing(run)) == ([None, None], [0, 0])
    monkeypatch.setattr(trim, "MOST_DIFFERING", 0.5)
    found = done(run)
    assert (found["trimmed"], found["facts"]["kept_whole"], missing(run)) == ([0, 2], 1, [0, 2100])


def test_probes_of_a_watch_count_once(root: Path) -> None:
    run = make(root)
    key = run.key("here", 1)
    run.layout.quic_probe(key).unlink()
    write_probes(run.layout.watch_probe(key), probe(b.CLIENT_CID, outcome="timeout"), probe(OTHER_CID))
    (warning,) = done(run)["warnings"]
    assert warning.startswith("captures are kept whole: 1 of 2 probes differ from them")


def test_packets_that_the_kernel_dropped_explain_differences(root: Path) -> None:
    run = make(root)
    key = run.key("here", 1)
    write_probes(run.layout.quic_probe(key), probe(b.CLIENT_CID, outcome="timeout"), probe(OTHER_CID))
    path = run.layout.stage("capture", key) / "capture.json"
    entries = json.loads(path.read_text())
    entries["captures"][1]["dropped_by_kernel"] = 1
    files.write_json(path, entries)
    found = done(run)
    assert (found["warnings"], found["facts"]["kept_whole"]) == ([], 1)
    assert (found["trimmed"], missing(run)) == ([0, 2], [0, 2100])


def test_without_probes_nothing_is_trimmed(root: Path) -> None:
    run = make(root)
    run.layout.quic_probe(run.key("here", 1)).unlink()
    assert done(run)["trimmed"] == [None, None] and missing(run) == [0, 0]


def test_captures_of_no_probe_are_not_trimmed(root: Path) -> None:
    """The captures or the prober's rows belong to other probes, so the ciphertext may be needed."""
    run = make(root)
    key = run.key("here", 1)
    write_probes(run.layout.quic_probe(key), probe(b"\x77" * 8), probe(b"\x78" * 8))
    found = done(run)
    (warning,) = found["warnings"]
    assert warning.startswith("captures are kept whole: no probe in the prober's rows matches")
    assert (found["trimmed"], missing(run)) == ([None, None], [0, 0])
    # One matching probe is sufficient: a killed prober may lack rows.
    write_probes(run.layout.quic_probe(key), probe(OTHER_CID))
    assert (done(run)["trimmed"], missing(run)) == ([2, 2], [2100, 2100])


def test_probes_without_connections_and_later_attempts_are_no_difference(root: Path) -> None:
    run = make(root)
    unknown = probe(b"\x77" * 8, outcome="timeout")
    blocked = {"client_cid": None, "outcome": "blocked"}
    write_probes(
        run.layout.quic_probe(run.key("here", 1)), probe(b.CLIENT_CID), unknown, blocked, probe(OTHER_CID)
    )
    assert done(run)["trimmed"] == [2, 2]
    key = run.key("here", 1)
    found = agreement.compare([run.layout.quic_probe(key)], run.layout.quic_connection(key))
    assert found == agreement.Agreement(2, [], 2)


def test_without_room_for_copies_captures_stay(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make(root)
    begin = trim.Copies.begin

    def no_folder(self: trim.Copies, but: Any = ()) -> list[str]:
        options = begin(self, but)
        self.folder.rmdir()
        self.folder.write_text("")  # where copies cannot be created
        return options

    monkeypatch.setattr(trim.Copies, "begin", no_folder)
    monkeypatch.setattr(trim.Copies, "remove", lambda self: self.folder.unlink(missing_ok=True))
    found = done(run)
    assert (found["trimmed"], missing(run)) == ([None, None], [0, 0])
    (warning,) = found["warnings"]
    assert warning.startswith("captures are kept whole: a trimmed copy in "), warning


def test_killed_at_any_step_nothing_is_lost(root: Path) -> None:
    run = make(root)
    key = run.key("here", 1)
    captures = run.layout.captures(key)
    originals = [path.read_bytes() for path in captures]
    stage(run, key)
    expected, trimmed = rows_of(run), [path.read_bytes() for path in captures]
    assert trimmed != originals
    steps = 0
    with self_killing.Runs("dissector.stage") as runs:
        while True:
            for path, content in zip(captures, originals, strict=True):
                path.write_bytes(content)
            run.layout.quic_connection(key).unlink(missing_ok=True)
            killed = runs.killed_before(steps + 1, run.path, key)
            for path, before, after in zip(captures, originals, trimmed, strict=True):
                assert path.read_bytes() in (before, after), steps
            if not killed:
                break
            steps += 1
            stage(run, key)
            assert rows_of(run) == expected, steps
            assert [path.read_bytes() for path in captures] == trimmed, steps
            records_now = json.loads((captures[0].parent / "capture.json").read_text())["captures"]
            assert [entry["trimmed"] for entry in records_now] == [2, 2]
    assert steps > 8


def test_a_stage_waits_for_the_dissector_that_a_killed_one_left(root: Path) -> None:
    """Otherwise its files would mix with the next dissector's, which writes to the same folders."""
    run = make(root)
    key, program = run.key("here", 1), binaries.find("firstflight-dissect")
    captures, folder = run.layout.captures(key), run.layout.stage("dissect", key)
    originals = [path.read_bytes() for path in captures]
    stage(run, key)
    expected, trimmed = rows_of(run), [path.read_bytes() for path in captures]
    for path, content in zip(captures, originals, strict=True):
        path.write_bytes(content)
    # The stage waits without a limit: the late dissector starts while the stage waits, and ignores SIGINT.
    started, go, late = root / "begun", root / "go", root / "bin" / program.name
    late.parent.mkdir()
    late.write_text(
        f"#!/bin/sh\ntrap '' INT\ntouch {started}\nuntil [ -e {go} ]; do sleep 0.05; done\n"
        f'exec {program} "$@"\n'
    )
    late.chmod(0o755)
    argv = [sys.executable, "-m", "cli", "stage", "dissect", "--run", run.id, "--vantage", "here"]
    argv += ["--repetition", "1", "--again"]
    messages = root / "messages"
    try:
        first = subprocess.Popen(argv, env=os.environ | {"FIRSTFLIGHT_BIN": str(late.parent)})
        until(started.exists, "the dissector")
        first.kill()
        first.wait(120)
        with messages.open("w") as file:
            restarted = subprocess.Popen(argv, stderr=file)
        until(lambda: f"still writes into {folder}" in messages.read_text(), messages.read_text)
        assert restarted.poll() is None
    finally:
        go.touch()
    assert restarted.wait(120) == 0, messages.read_text()
    assert rows_of(run) == expected and [path.read_bytes() for path in captures] == trimmed
    assert {path.name for path in captures[0].parent.iterdir()} == {*NAMES, "capture.json"}
