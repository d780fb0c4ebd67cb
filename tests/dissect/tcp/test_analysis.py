"""The classes of TCP segments, packet by packet, compared with tshark's tcp.analysis (two passes)."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

import pytest

from schemas import records
from tests.dissect import tshark
from tests.dissect.conftest import Row, rows
from tests.dissect.tcp import tcp_stories

CLASSES = ("retransmission", "fast_retransmission", "spurious_retransmission", "out_of_order")
MARKS = (
    *("lost_segment", "ack_lost_segment", "keep_alive", "keep_alive_ack", "duplicate_ack"),
    *("zero_window", "zero_window_probe", "zero_window_probe_ack"),
)


def oracle(capture: Path) -> dict[int, set[str]]:
    """Return tshark's marks of each frame, without the "retransmission" that it adds to fast and spurious."""
    argv = ["tshark", "-2", "-r", str(capture), "-T", "fields", "-e", "frame.number"]
    for name in CLASSES + MARKS:
        argv += ["-e", f"tcp.analysis.{name}"]
    done = subprocess.run(argv, capture_output=True, check=True, text=True)
    names_of = {}
    for line in done.stdout.splitlines():
        number, *cells = line.split("\t")
        names = {name for name, cell in zip(CLASSES + MARKS, cells, strict=True) if cell}
        if names & {"fast_retransmission", "spurious_retransmission"}:
            names.discard("retransmission")
        names_of[int(number)] = names
    return names_of


def judged(packets: list[Row]) -> dict[int, set[str]]:
    """Return the dissector's class and marks of each frame."""
    return {
        row["frame_number"]: {name for name in (*row["marks"].split(","), row["class"]) if name}
        for row in packets
    }


@pytest.mark.parametrize("seed", range(4))
def test_every_segment_is_judged_as_by_tshark(seed: int, tmp_path: Path) -> None:
    tshark.only_with_the_reference("a SYN-ACK can start a conversation, repeated bytes have other classes")
    capture = tcp_stories.write(tmp_path / "stories.pcap", seed, 150)
    found = judged(rows(capture, "--kind", "tcp_packet"))
    expected = oracle(capture)
    assert [(n, found[n], names) for n, names in expected.items() if found[n] != names] == []


@pytest.mark.parametrize("seed", range(4))
def test_flows_count_their_segments(seed: int, tmp_path: Path) -> None:
    capture = tcp_stories.write(tmp_path / "stories.pcap", seed, 150)
    packets = rows(capture, "--kind", "tcp_packet")
    count_of = Counter(name for names in judged(packets).values() for name in names)
    # Every class occurs, so that no comparison is empty.
    assert set(count_of) == set(CLASSES + MARKS)
    flows = rows(capture, "--kind", "tcp_flow")
    for name in CLASSES:
        assert sum(flow[f"{name}_packets"] for flow in flows) == count_of[name]
    assert sum(flow["packets_client"] + flow["packets_server"] for flow in flows) == len(packets)
    retransmitted = {row["frame_number"]: row["ip_bytes"] for row in packets if row["class"] in CLASSES[:3]}
    assert sum(
        flow["retransmitted_bytes_client"] + flow["retransmitted_bytes_server"] for flow in flows
    ) == sum(retransmitted.values())


def test_ports_used_again_are_another_flow(tmp_path: Path) -> None:
    tshark.only_with_the_reference("a SYN-ACK can start a conversation")
    capture = tcp_stories.write(tmp_path / "stories.pcap", 7, 150)
    argv = ["tshark", "-2", "-r", str(capture), "-T", "fields", "-e", "tcp.stream"]
    streams = subprocess.run(argv, capture_output=True, check=True, text=True).stdout.split()
    flows = rows(capture, "--kind", "tcp_flow")
    assert len(flows) == len(set(streams))
    assert any(flow["ports_reused"] for flow in flows)


@pytest.mark.parametrize("kind", ["tcp_flow", "tcp_packet"])
def test_lines_hold_every_column(kind: str, tmp_path: Path) -> None:
    described = [column.name for column in records.load(kind).columns]
    for row in rows(tcp_stories.write(tmp_path / "stories.pcap", 1, 3), "--kind", kind):
        assert list(row) == ["kind", *described]
