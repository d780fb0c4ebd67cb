"""What limits a download, for computed transfers with one known limit each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.dissect.conftest import rows
from tests.dissect.tcp.tcp_transfers import Transfer

CAUSES = ("application", "receive_window", "congestion_window", "path")
LARGE: dict[str, Any] = {"window": 65535, "shift": 8}  # 16 MB
# Bytes of the file, all written at once.
FILE = [(0.0, 400_000)]


def at_intervals(ms: float, size: int, count: int) -> list[tuple[float, int]]:
    """Return writes of `size` bytes."""
    return [(number * ms, size) for number in range(count)]


TABLE: dict[str, tuple[str, Transfer]] = {
    "64 KB window": ("receive_window", Transfer([(0, 1_500_000)])),
    "window of two segments": ("receive_window", Transfer([(0, 40_000)], window=2 * 1448)),
    "slow start": ("congestion_window", Transfer(FILE, **LARGE)),
    "constant congestion window": ("congestion_window", Transfer(FILE, windows=(10, 10), **LARGE)),
    "one segment per round trip": ("congestion_window", Transfer([(0, 30_000)], windows=(1, 1), **LARGE)),
    "losses": (
        "congestion_window",
        Transfer(FILE, windows=(10, 10), dropped=frozenset(range(15, 270, 15)), **LARGE),
    ),
    "20 Mbit/s": ("path", Transfer([(0, 1_500_000)], rtt_ms=20, rate_bps=20_000_000, **LARGE)),
    # The queue holds more packets than a round trip takes, so the window is used up, and the line is full.
    "1 Mbit/s with a queue": ("path", Transfer([(0, 200_000)], rtt_ms=20, rate_bps=1_000_000)),
    "bursts between pauses": ("application", Transfer(at_intervals(200, 14_480, 10), **LARGE)),
    "pauses shorter than a round trip": ("application", Transfer(at_intervals(30, 10_000, 30), **LARGE)),
    "small writes": ("application", Transfer(at_intervals(3, 700, 200), rtt_ms=20, **LARGE)),
}


def row_of(capture: Path) -> dict[str, Any]:
    """Return the row of the only flow."""
    (row,) = rows(capture, "--kind", "tcp_flow")
    return row


@pytest.mark.parametrize("name", TABLE)
def test_a_transfer_has_its_declared_limit(name: str, tmp_path: Path) -> None:
    expected, transfer = TABLE[name]
    row = row_of(transfer.run().write(tmp_path / "t.pcap"))
    times = {cause: row[f"limited_{cause}_us"] for cause in CAUSES}
    assert row["limited_by"] == expected, times
    assert 2 * times[expected] > sum(times.values())
    # All time from the first to the last data packet has one cause.
    assert sum(times.values()) <= row["duration_us"] - row["first_byte_us"]
    assert row["payload_bytes_server"] == sum(size for _, size in transfer.writes)


@pytest.mark.parametrize(
    ("transfer", "left_out"),
    [
        (Transfer(FILE, stamps=False, **LARGE), ()),
        (Transfer(FILE, seen_by=1, **LARGE), ()),
        # The SYN, the SYN-ACK, and a data packet that the client has acknowledged.
        (Transfer(FILE, **LARGE), (0,)),
        (Transfer(FILE, **LARGE), (1,)),
        (Transfer(FILE, **LARGE), (6,)),
    ],
    ids=["no timestamps", "at the server", "no SYN", "no SYN-ACK", "a packet is missing"],
)
def test_what_cannot_be_known_is_null(transfer: Transfer, left_out: tuple[int, ...], tmp_path: Path) -> None:
    row = row_of(transfer.run().write(tmp_path / "t.pcap", left_out))
    assert {row[f"limited_{cause}_us"] for cause in CAUSES} == {None}
    assert row["limited_by"] is None


def test_a_transfer_of_one_flight_has_no_verdict(tmp_path: Path) -> None:
    row = row_of(Transfer([(0, 10_000)], **LARGE).run().write(tmp_path / "t.pcap"))
    assert row["limited_by"] is None
    assert row["limited_path_us"] >= 0
