"""The limits of retained connections, in number and time, for a run's captures and for a trace."""

from __future__ import annotations

from pathlib import Path

import pytest

from dissector import connections
from firstflight import settings
from reports import trace
from tests import minimal
from tests.dissect import build as b
from tests.dissect.build import MS, CaptureBuilder


@pytest.mark.parametrize(
    ("given", "idle_s", "most"),
    [
        # 500 a second, two attempts: twice as long as they may be silent.
        ((), 9, 18_000),
        (("probe.listen_s=30",), 39, 78_000),
        (("probe.listen_s=60",), 69, 90_000),
        (("probe.attempts=1", "probe.timeout_s=1.2"), 7, 7_000),
        (("probe.rate=20000",), 9, 144_000),
    ],
)
def test_connections_are_kept_while_packets_may_come(
    tmp_path: Path, given: tuple[str, ...], idle_s: int, most: int
) -> None:
    in_force, _ = settings.load(minimal.write(tmp_path), given)
    arguments = dict(connections.kept(in_force))
    assert (arguments["--idle-s"], arguments["--max-connections"]) == (idle_s, most)


def test_a_trace_keeps_as_many_as_the_stage(tmp_path: Path) -> None:
    in_force, _ = settings.load(minimal.write(tmp_path), ["probe.timeout_s=1"])
    capture = CaptureBuilder().sent(0, b.hello_datagram())
    others, hello = 10_000, b.hello_datagram()
    for number in range(others):
        port = (f"192.0.{number >> 8 & 0xFF}.{number & 0xFF}", 2000 + number // 65_536)
        capture.packets.append((MS + number, b.udp(port, b.SERVER, hello)))
    capture.came(900 * MS, b.initial(b.ack(), 0)).write(tmp_path / "probe.pcap")
    packets = trace.packets_of(tmp_path / "probe.pcap", b.CLIENT_CID.hex(), in_force)
    answers = [packet for packet in packets if not packet["from_client"]]
    assert [packet["frames"] for packet in answers] == ["ack 0 delay 5"]
