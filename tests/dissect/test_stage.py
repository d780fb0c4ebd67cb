"""A run's dissect stage, and the command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from dissector.stage import stage
from firstflight import settings
from firstflight.errors import InputError
from firstflight.run.run import Run
from firstflight.system import files
from orchestration import execute, stages
from schemas import records
from store.load.record_file import RecordFile
from tests import minimal
from tests.dissect import build as b
from tests.dissect.build import MS, CaptureBuilder
from tests.dissect.conftest import FIXTURES


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run with two captures, because its probe stage was interrupted and resumed."""
    monkeypatch.setenv("FIRSTFLIGHT_RUNS", str(tmp_path / "runs"))
    run = Run.create(*settings.load(minimal.write(tmp_path), ["probe.timeout_s=0.5"]))
    folder = run.layout.stage("capture", run.key("here", 1))
    folder.mkdir(parents=True)
    entry = {"interface": "lo", "filter": "udp", "snaplen": 262144, "started_ns": 1}
    names = ("probe.pcap", "probe-2.pcap")
    files.write_json(folder / "capture.json", {"captures": [entry | {"file": name} for name in names]})
    first = CaptureBuilder().sent(0, b.hello_datagram()).came(10 * MS, b.initial(b.ack(), 0))
    # Within the default window of 3 s, but not within this run's.
    first.came(900 * MS, b.initial(b.crypto(b.server_hello()), 1)).write(folder / names[0])
    CaptureBuilder(client=("192.0.2.11", 4)).sent(0, b.hello_datagram()).write(folder / names[1])
    return run


def test_all_captures_become_one_record_file(run: Run) -> None:
    stage(run, run.key("here", 1))
    path = run.layout.quic_connection(run.key("here", 1))
    rows = pq.ParquetFile(path).read().to_pylist()
    assert [(row["source_file"], row["first_answer"]) for row in rows] == [
        (f"{run.id}/here/1/capture/probe.pcap", "ack_only"),
        (f"{run.id}/here/1/capture/probe-2.pcap", "timeout"),
    ]
    assert {(row["run"], row["vantage"], row["repetition"]) for row in rows} == {(run.id, "here", 1)}
    report = run.report("dissect", run.key("here", 1))
    assert report is not None
    assert (report.state, report.rows_out) == ("done", 2)
    assert report.counts == {"ack_only": 1, "timeout": 1}
    assert run.done("dissect", run.key("here", 1))
    # The loader checks the schema and the number of rows.
    assert pq.ParquetFile(path).schema_arrow.equals(
        records.load("quic_connection").arrow_schema(), check_metadata=True
    )
    assert sum(table.num_rows for table in RecordFile(path).batches()) == 2
    assert {p.name for p in path.parent.iterdir()} <= {
        "quic_connection.parquet",
        "report.json",
        "progress.json",
        "lock",
    }


def test_a_capture_that_breaks_off_is_named_and_the_rest_kept(run: Run) -> None:
    broken = run.layout.capture(run.key("here", 1))
    broken.write_bytes(broken.read_bytes()[:-5])
    with pytest.raises(InputError, match=rf"^{broken}: at byte \d+: expected a whole frame"):
        stage(run, run.key("here", 1))
    rows = pq.ParquetFile(run.layout.quic_connection(run.key("here", 1))).read().to_pylist()
    assert [row["first_answer"] for row in rows] == ["ack_only", "timeout"]
    assert not run.done("dissect", run.key("here", 1))


def test_a_capture_that_is_gone_is_named_and_the_rows_stay(run: Run) -> None:
    stage(run, run.key("here", 1))
    before = run.layout.quic_connection(run.key("here", 1)).read_bytes()
    missing = run.layout.capture(run.key("here", 1))
    content = missing.read_bytes()
    missing.unlink()
    with pytest.raises(InputError, match=r"^probe\.pcap in .* is missing, but listed in capture\.json"):
        stage(run, run.key("here", 1))
    assert run.layout.quic_connection(run.key("here", 1)).read_bytes() == before
    # The next try uses the file that a killed stage left.
    missing.with_name("probe.pcap.part").write_bytes(content)
    stage(run, run.key("here", 1))
    (row,) = pq.ParquetFile(run.layout.quic_connection(run.key("here", 1))).read().to_pylist()
    assert row["source_file"].endswith("probe-2.pcap")


def test_rows_stay_until_a_repeated_stage_has_new_ones(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    key = run.key("here", 1)
    path = run.layout.quic_connection(key)
    stage(run, key)
    before = path.read_bytes()
    monkeypatch.setattr(execute, "_install_signal_handlers", lambda: None)
    left = path.parent / "native.killed"
    left.mkdir()
    (left / path.name).touch()
    second = run.layout.capture(key).with_name("probe-2.pcap")
    content = second.read_bytes()
    second.unlink()
    with pytest.raises(InputError, match=r"^probe-2\.pcap in .* is missing"):
        execute.run_here(run, stages.named("dissect"), key, True, {})
    assert path.read_bytes() == before
    second.write_bytes(content)
    path.write_bytes(b"")
    execute.run_here(run, stages.named("dissect"), key, True, {})
    assert pq.ParquetFile(path).metadata.num_rows == 2
    assert not left.exists()


def test_without_capture_there_is_nothing_to_dissect(run: Run) -> None:
    with pytest.raises(InputError, match=r"^there is no capture in "):
        stage(run, run.key("here", 2))


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "cli", "dissect", *arguments]
    return subprocess.run(argv, capture_output=True, text=True, check=False, env=dict(os.environ))


def test_the_command_hands_over_to_the_native_program() -> None:
    done = command(str(FIXTURES / "quiche.pcap"), "--format", "jsonl")
    assert done.returncode == 0
    assert json.loads(done.stdout)["first_answer"] == "coalesced"
    assert command("/nowhere.pcap").returncode == 3
    assert command("--no-such-option").returncode == 2
    helped = command("--help")
    assert (helped.returncode, "Example: firstflight dissect" in helped.stdout) == (0, True)
    assert command("--version").stdout.startswith("firstflight-dissect ")
