"""A guest's share of a cell: its size, and incomplete captures and lines."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from testbed import experiment_files
from testbed.experiment.cell import Cell
from testbed.trials import block, estimate, programs, trial_row
from testbed.trials.captures import captured_packets, whole_capture

CELL = Cell(client="quiche", server="quiche", answering="wfc")
REPORT = (
    "tcpdump: listening on path0\n{} packets captured\n{} packets received\n{} packets dropped by kernel\n"
)


@pytest.mark.parametrize(
    ("client", "body_bytes", "trials", "memory_mb", "limit_s"),
    [
        ("quiche", 0, 50, 1024, 900),
        ("quiche", 1_000_000, 50, 1024, 900),
        # A guest has room for the captures of nine trials: eight counted ones and the uncounted first one.
        ("quiche", 10 << 20, 8, 1024, 900),
        # One trial needs more memory; with the largest body, also more time.
        ("quiche", 100 << 20, 1, 1902, 900),
        ("quiche", 1 << 30, 1, 17404, 7527),
        ("chromium", 0, 18, 3072, 900),
    ],
)
def test_blocks_fit_the_memory_and_time_of_a_guest(
    client: str, body_bytes: int, trials: int, memory_mb: int, limit_s: float
) -> None:
    cell = CELL.model_copy(update={"client": client, "body_bytes": body_bytes})
    found = block.blocks("own", cell, 2 * trials)
    assert [(each_block.first, each_block.last) for each_block in found] == [
        (1, trials),
        (trials + 1, 2 * trials),
    ]
    assert (found[0].memory_mb, round(found[0].limit_s)) == (memory_mb, limit_s)
    assert estimate.SLOWER * found[0].cpu_s <= found[0].limit_s


def test_no_experiment_here_needs_a_larger_guest() -> None:
    for experiment in experiment_files.load().values():
        for cell in experiment.cells():
            for planned in block.blocks("", cell, experiment.repetitions):
                assert planned.memory_mb in (estimate.MEMORY_MB, estimate.BROWSER_MB)
                assert planned.limit_s == estimate.LIMIT_S


def written(folder: Path, packets: int, log: str) -> Path:
    """Write a capture and a report as the guest's tcpdump does."""
    file = folder / "path.pcap"
    record = struct.pack("=IIII", 1, 2, 60, 60) + bytes(60)
    file.write_bytes(struct.pack("=I", 0xA1B23C4D) + bytes(20) + packets * record)
    file.with_name("path.pcap.log").write_text(log, encoding="utf-8")
    return file


@pytest.mark.parametrize(
    ("packets", "log", "fault"),
    [
        (3, REPORT.format(3, 3, 0), None),
        (1, "1 packet captured\n1 packet received by filter\n0 packets dropped by kernel\n", None),
        (3, REPORT.format(3, 5, 2), "tcpdump missed 2 packets of path.pcap"),
        (2, REPORT.format(3, 3, 0), "path.pcap holds 2 of 3 packets: the guest's memory was full"),
        (3, "tcpdump: listening on path0\nkilled\n", "tcpdump did not end path.pcap in order: killed"),
        (0, "", "tcpdump did not end path.pcap in order: it gave no reason"),
    ],
)
def test_a_capture_is_complete_or_has_a_reason(
    tmp_path: Path, packets: int, log: str, fault: str | None
) -> None:
    assert whole_capture.fault(written(tmp_path, packets, log)) == fault


def test_truncated_packets_of_a_capture_are_missing(tmp_path: Path) -> None:
    file = written(tmp_path, 3, REPORT.format(3, 3, 0))
    file.write_bytes(file.read_bytes()[:-1])
    assert whole_capture.fault(file) == "path.pcap holds 2 of 3 packets: the guest's memory was full"


CONNECTION = {"start_time_ns": 5, "first_stream_us": 3}
"""The columns for a captured connection that a trial needs."""


def test_a_part_of_a_line_is_no_trial(tmp_path: Path) -> None:
    lines = tmp_path / "trials.jsonl"
    assert trial_row.by_repetition(lines) == {}
    lines.write_text('{"repetition": 0}\n{"repetition": 1}\n{"repet', encoding="utf-8")
    assert trial_row.by_repetition(lines) == {0: {"repetition": 0}, 1: {"repetition": 1}}


@pytest.mark.parametrize(
    ("end", "detail", "connections", "fault", "expected"),
    [
        ("complete", None, 1, None, ("done", None)),
        ("complete", None, 1, "a fault", ("not_captured", "a fault")),
        ("complete", None, 0, None, ("not_captured", "the capture has 0 connections of the trial")),
        ("timeout", "no response", 1, None, ("timeout", "no response")),
        ("died", "no answer", 0, None, ("failed", "no answer; the capture has 0 connections of the trial")),
        ("connect_failed", None, 2, None, ("no_connection", "the capture has 2 connections of the trial")),
    ],
)
def test_a_trial_has_the_end_of_its_client_unless_it_was_done(
    end: str, detail: str | None, connections: int, fault: str | None, expected: tuple[str, str | None]
) -> None:
    row = trial_row.without_trial("own", CELL, 1, "guest_failed", None)
    captured = trial_row.CaptureContent([CONNECTION] * connections, fault=fault)
    found = trial_row.of_trial(row, finished(end, detail), captured)
    assert (found["outcome"], found["detail"]) == expected
    assert (found["transfer_us"] is not None) == (expected[0] == "done")


@pytest.mark.parametrize(
    ("received", "expected"),
    [
        (500_000, ("done", None)),
        (499_999, ("failed", "499999 of 500000 bytes of the body arrived")),
        (0, ("failed", "0 of 500000 bytes of the body arrived")),
        # The client does not count.
        (None, ("done", None)),
    ],
)
def test_a_counted_body_must_be_complete(received: int | None, expected: tuple[str, str | None]) -> None:
    cell = CELL.model_copy(update={"body_bytes": 500_000})
    trial = {**finished("complete", None), "body_received": received}
    row = trial_row.without_trial("own", cell, 1, "guest_failed", None)
    found = trial_row.of_trial(row, trial, trial_row.CaptureContent([CONNECTION]))
    assert (found["outcome"], found["detail"]) == expected


@pytest.mark.parametrize(
    ("received", "connections", "outcome"),
    [
        (1_500_000, 1, "done"),
        (1_500_000, 3, "done"),
        (1_500_000, 4, "not_captured"),
        (1_500_000, 0, "not_captured"),
        (500_000, 1, "failed"),
    ],
)
def test_several_responses_have_up_to_as_many_connections(
    received: int, connections: int, outcome: str
) -> None:
    """With several connections, no columns of a single one are known."""
    cell = CELL.model_copy(update={"body_bytes": 500_000, "responses": 3, "think_ms": 2000})
    trial = {**finished("complete", None), "body_received": received}
    row = trial_row.without_trial("own", cell, 1, "guest_failed", None)
    captured = trial_row.CaptureContent([{**CONNECTION, "ack_us": 7}] * connections)
    found = trial_row.of_trial(row, trial, captured)
    assert (found["outcome"], found["connections"]) == (outcome, connections)
    assert found["ack_us"] == (7 if connections == 1 else None)
    assert (found["responses"], found["think_ms"]) == (3, 2000)
    faulty = trial_row.of_trial(row, trial, trial_row.CaptureContent([CONNECTION], fault="a fault"))
    assert faulty["connections"] is None


def test_several_responses_take_more_time_and_memory() -> None:
    single = CELL.model_copy(update={"body_bytes": 2_000_000})
    several = single.model_copy(update={"responses": 30, "think_ms": 9500})
    total = single.model_copy(update={"body_bytes": 60_000_000})
    assert estimate.cpu_s(several, 2) == estimate.cpu_s(total, 2)
    assert estimate.memory_mb(several, 2) == estimate.memory_mb(total, 2) > estimate.memory_mb(single, 2)
    assert block.timeout_s(several) == block.timeout_s(single) + 29 * 9.5
    job = {"timeout_s": 1, "http": "3"}
    asked = [programs.request(job, cell, Path("/roots")) for cell in (single, several)]
    # Clients of other stacks do not know these fields.
    assert "responses" not in asked[0] and "think_s" not in asked[0]
    assert (asked[1]["responses"], asked[1]["think_s"]) == (30, 9.5)


def test_success_needs_a_stream_in_the_capture() -> None:
    """picoquic's program exits with status 0 even if the handshake failed."""
    row = trial_row.without_trial("own", CELL, 1, "guest_failed", None)
    captured = trial_row.CaptureContent([{**CONNECTION, "first_stream_us": None}])
    found = trial_row.of_trial(row, finished("complete", None), captured)
    assert (found["outcome"], found["transfer_us"]) == ("failed", None)
    assert found["detail"] == "the client reports success, but the capture has no stream of the server"


def finished(end: str, detail: str | None) -> dict[str, Any]:
    """Return a trial as testbed/trials/inside.py leaves it."""
    return {
        "begun_ns": 1,
        "ended_ns": 9,
        "client_version": "quiche/1",
        "end": end,
        "detail": detail,
        "body_received": 0,
        "transfer_us": 5,
        **dict.fromkeys(("dropped", "reordered", "queue_drops", "queue_to_server_drops"), 0),
        "drop_to_server": [],
    }


@pytest.mark.parametrize(
    ("begun", "done", "expected"),
    [
        # Repetition 0 is not counted, and 2 was not done.
        ((0, 1, 2, 3), (1, 3), [1, 3]),
        # Repetition 0 made no connection.
        ((1, 2, 3), (1, 3), [1, 3]),
        ((0, 1), (1, 3), [1]),
    ],
)
def test_connections_are_those_of_trials_that_were_done(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    begun: tuple[int, ...],
    done: tuple[int, ...],
    expected: list[int],
) -> None:
    trials = [
        {"repetition": repetition, "begun_ns": 100 * repetition, "ended_ns": 100 * repetition + 50}
        for repetition in range(4)
    ]
    lines = "".join(json.dumps(repetition) + "\n" for repetition in trials)
    (tmp_path / "trials.jsonl").write_text(lines, encoding="utf-8")
    packets = [
        {"client_ip": "10.91.1.2", "client_port": repetition, "odcid": "", "time_ns": 100 * repetition + late}
        for repetition in begun
        for late in (10, 70)
    ]
    monkeypatch.setattr(captured_packets, "_dissected", lambda *_: packets)
    rows = [{"cell": "a", "capture_file": "path.pcap", "repetition": repetition} for repetition in done]
    found = captured_packets.connections(tmp_path, rows)
    assert [[packet["client_port"] for packet in repetition] for repetition in found] == [
        [repetition] * 2 for repetition in expected
    ]
