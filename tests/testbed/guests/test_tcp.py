"""Trials over TCP in guests: the kernel's congestion controls, a lost packet, and the same bytes twice."""

from __future__ import annotations

from pathlib import Path

from testbed import stacks
from testbed.experiment.cell import Cell
from testbed.trials import compare_runs, series
from tests.testbed.guests.test_trials import run

HELD = """
title = "own"
measure = "pacing"
[held]
client = "tcp-nginx"
server = "tcp-nginx"
answering = "wfc"
rtt_ms = 40
rate_mbit = 40
rate_to_server_mbit = 1000
queue_packets = 143
body_bytes = 2000000
gso = true
qdisc = "none"
[vary]
congestion_control = ["cubic", "reno", "bbr"]
[[cell]]
congestion_control = "cubic"
qdisc = "fq"
[[cell]]
qdisc = "pfifo"
drop_to_client = [20]
drop_to_server = [1]
"""


def test_the_kernel_sends_as_each_congestion_control_asks(tmp_path: Path) -> None:
    """Paper 001, section 4.1: trains of up to five packets, with each control."""
    file = tmp_path / "own.toml"
    file.write_text(HELD, encoding="utf-8")
    run(tmp_path, f"--scenario={file}", "--seeds", "1")
    rows = series.rows(tmp_path, "own")
    assert [row["detail"] for row in rows if row["outcome"] != "done"] == []
    stack = stacks.find("tcp-nginx")
    for row in rows:
        assert (row["client_version"], row["server_version"]) == (stack.version.known(), stack.server_version)
        assert row["rtt_min_us"] >= 40_000
        assert row["ip_bytes_server"] > 2_000_000
        assert row["first_stream_us"] is None
    none = {row["congestion_control"]: row for row in rows if row["qdisc"] == "none"}
    assert set(none) == {"cubic", "reno", "bbr"}
    # Most packets are in short trains, and hardly any is alone.
    assert all(row["share_in_trains_le5"] > 0.7 and row["share_in_trains_1"] < 0.1 for row in none.values())
    # Each control sends at other times.
    assert len({(row["transfer_us"], row["queue_drops"], row["longest_train"]) for row in none.values()}) == 3
    (lossy,) = (row for row in rows if row["qdisc"] == "pfifo")
    # The lost SYN costs a second.
    assert lossy["dropped"] == 2 and lossy["transfer_us"] > 1_000_000
    assert 0 <= lossy["link_late_p99_us"] < 20
    # CUBIC leaves slow start before the queue is full (HyStart); Reno does not.
    assert none["cubic"]["queue_drops"] < none["reno"]["queue_drops"]


def test_a_lost_packet_is_sent_again_and_two_runs_are_the_same() -> None:
    conditions = {"client": "tcp-nginx", "server": "tcp-nginx", "answering": "wfc", "gso": True, "rtt_ms": 20}
    lost = {"body_bytes": 100_000, "drop_to_client": (20,), "drop_to_server": (1,)}
    cell = Cell.model_validate({**conditions, **lost})
    (found,) = compare_runs.run_twice("x", [cell], 1, 2)
    assert found.same and found.outcomes == {"done"}, found
