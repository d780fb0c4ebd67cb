"""Arrow segments: their contents, the state after a kill, and resuming a run."""

from __future__ import annotations

import resource
import signal
import subprocess
from pathlib import Path

import pyarrow.ipc

from schemas import records
from tests.engines.segments import rows_of
from tests.prober.conftest import FAST, LOOPBACK, Probe, argv, write_targets
from tests.waiting import PATIENCE_S, until

COUNT = 20_000


def test_segments_have_the_values_of_json(probe: Probe, responder: int, tmp_path: Path) -> None:
    targets = [(f"127.4.0.{i}", f"n{i}.test", responder) for i in range(1, 40)] + [("127.4.0.1", "", 9)]
    done = probe(targets, "--segments", tmp_path / "seg", "--format", "jsonl")
    rows = {row.pop("target"): row for row in rows_of(tmp_path / "seg")}
    assert sorted(rows) == list(range(2, 42)), "the line of each target"
    assert sorted(row["client_cid"] for row in rows.values()) == sorted(
        row["client_cid"] for row in done.rows
    )
    by_cid = {row["client_cid"]: row for row in done.rows}
    for row in rows.values():
        expected = by_cid[row["client_cid"]]
        assert {k: v for k, v in row.items() if k != "amplification"} == {
            k: v for k, v in expected.items() if k != "amplification"
        }
    with pyarrow.ipc.open_file(next((tmp_path / "seg").glob("*.arrow"))) as reader:
        schema = reader.schema
    described = {column.name: column for column in records.load("quic_probe").columns}
    assert schema.names == ["target", *(c.name for c in described.values() if c.source == "prober")]
    for field in list(schema)[1:]:
        assert (field.type, field.nullable) == (
            described[field.name].segment_type(),
            described[field.name].nullable,
        )
    assert done.summary["last_segment"] >= 1


def test_without_a_format_nothing_is_written_to_standard_output(probe: Probe, tmp_path: Path) -> None:
    done = probe([("127.0.0.1", "a.test", 9)], "--segments", tmp_path / "seg")
    assert (done.status, done.rows, len(rows_of(tmp_path / "seg"))) == (0, [], 1)
    second = probe([("127.0.0.1", "a.test", 9)], "--segments", tmp_path / "seg")
    assert second.status == 2 and "--resume" in second.messages


def test_kill_loses_no_closed_segment_and_resume_does_the_rest(responder: int, tmp_path: Path) -> None:
    targets = [(f"127.5.{i // 250}.{i % 250 + 1}", f"n{i}.test", responder) for i in range(COUNT)]
    path = write_targets(tmp_path / "t.csv", targets)
    folder = tmp_path / "seg"
    common = ("--targets", path, *LOOPBACK, *FAST, "--segments", folder, "--linger-ms", 100)
    # At this rate, the run takes 40 s, so that it does not finish while the test is stalled.
    process = subprocess.Popen(argv(*common, "--rate", 500), stderr=subprocess.DEVNULL)
    until(lambda: len(rows_of(folder)) >= 500, "500 rows in closed segments")
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = rows_of(folder)
    assert 500 <= len(before) < COUNT
    resume = argv(*common, "--rate", 5000, "--resume")
    done = subprocess.run(resume, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    rows = rows_of(folder)
    assert sorted(row["target"] for row in rows) == list(range(2, COUNT + 2)), "each target once"
    assert f"{COUNT} of {COUNT}" in done.stderr
    nothing = subprocess.run(resume, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert nothing.returncode == 0 and len(rows_of(folder)) == COUNT
    write_targets(path, targets[::-1])
    other = subprocess.run(resume, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert other.returncode == 2 and "list of the first run" in other.stderr


def test_a_full_disk_is_one_sentence_and_loses_nothing_closed(responder: int, tmp_path: Path) -> None:
    targets = write_targets(
        tmp_path / "t.csv", [(f"127.6.0.{i}", f"n{i}.test", responder) for i in range(1, 250)]
    )
    folder = tmp_path / "seg"
    command = argv("--targets", targets, *LOOPBACK, *FAST, "--segments", folder, "--rate", 100)

    def small_files() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (6000, 6000))

    done = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE_S, check=False, preexec_fn=small_files
    )
    assert done.returncode == 3
    assert "segment cannot be written" in done.stderr and "--resume" in done.stderr
    assert "panicked" not in done.stderr
    assert list(folder.glob("*.part")) == []
