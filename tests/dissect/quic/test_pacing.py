"""Packet trains and gaps, compared with the published captures and a separate computation from tshark."""

from __future__ import annotations

import json
import statistics
import subprocess
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from schemas import records
from tests.dissect import build as b
from tests.dissect.conftest import Row, dissect, rows

PACING = Path(__file__).resolve().parents[2] / "fixtures" / "pacing"
QUICHE = PACING / "quiche-gso-txtime-cubic-gso_unpaced-rep1.pcap.zst"
TCP = PACING / "tcp+tls-cubic-rep1.pcap.zst"


def times_ns(capture: Path) -> tuple[list[int], list[int]]:
    """Return the times (ns) and the IP total lengths (bytes) of the packets by tshark."""
    argv = ["tshark", "-r", str(capture), "-T", "fields", "-e", "frame.time_epoch", "-e", "ip.len"]
    done = subprocess.run(argv, capture_output=True, check=True, text=True)
    lines = [line.split() for line in done.stdout.splitlines()]
    return [int(time.replace(".", "")) for time, _ in lines], [int(length) for _, length in lines]


def expected(times: list[int], train_gap_ns: int = 100_000) -> Row:
    """Compute the same numbers in the simplest way."""
    gaps = [after - before for before, after in pairwise(times)]
    trains = [1]
    for gap in gaps:
        if gap < train_gap_ns:
            trains[-1] += 1
        else:
            trains.append(1)
    return {
        "packets": len(times),
        "gap_p50_ns": int(statistics.median(gaps)),
        "gap_min_ns": min(gaps),
        "gap_max_ns": max(gaps),
        "trains": len(trains),
        "longest_train": max(trains),
        "share_in_trains_le5": sum(n for n in trains if n <= 5) / len(times),
        "duration_us": (times[-1] - times[0]) // 1000,
    }


@pytest.mark.parametrize(("capture", "protocol", "share"), [(QUICHE, "udp", 0.8596), (TCP, "tcp", 0.9996)])
def test_published_captures(capture: Path, protocol: str, share: float, tmp_path: Path) -> None:
    (row,) = rows(capture, "--kind", "pacing")
    assert row["protocol"] == protocol
    assert abs(row["share_in_trains_le5"] - share) < 0.0001
    assert row["gaps_exact"] is True
    plain = tmp_path / "plain.pcap"
    subprocess.run(["tshark", "-r", str(capture), "-F", "nsecpcap", "-w", str(plain)], check=True)
    times, lengths = times_ns(plain)
    computed = expected(times)
    assert {name: row[name] for name in computed} == computed
    gaps = [after - before for before, after in pairwise(times)]
    points = [sum(gap <= point * 10_000 for gap in gaps) for point in range(201)]
    assert json.loads(row["gaps_up_to"]) == points
    (mode, count), *_ = sorted(Counter(lengths).items(), key=lambda item: (-item[1], -item[0]))
    assert (row["ip_bytes_mode"], row["ip_bytes_mode_share"]) == (mode, count / len(lengths))
    shares = dict(pair.split(":") for pair in row["train_lengths"].split(","))
    assert sum(map(float, shares.values())) == pytest.approx(1, abs=1e-4)


def test_another_train_gap_is_another_answer() -> None:
    (row,) = rows(QUICHE, "--kind", "pacing", "--train-gap", "0.011")
    assert (row["train_gap_ns"], row["longest_train"], row["share_in_trains_1"]) == (11_000, 1, 1.0)
    done = dissect(QUICHE, "--kind", "pacing", "--train-gap", "-1")
    assert done.returncode == 2


def test_each_direction_has_a_row_and_silence_ends_it(tmp_path: Path) -> None:
    capture = b.CaptureBuilder()
    for at in (0, 50_000, 150_000, 100 * 10**9):
        capture.sent(at, b"x" * 100)
    capture.came(b.MS, b"y" * 50)
    found = rows(capture.write(tmp_path / "two.pcap"), "--kind", "pacing")
    directions = {(row["src_port"], row["start_time_ns"] - b.START_NS): row for row in found}
    assert set(directions) == {(40000, 0), (443, b.MS), (40000, 100 * 10**9)}
    first = directions[40000, 0]
    assert (first["packets"], first["payload_bytes"], first["ip_bytes"]) == (3, 300, 3 * 128)
    assert (first["train_lengths"], first["duration_us"]) == ("1:0.333333,2:0.666667", 150)
    assert first["goodput_bps"] == 300 * 8 * 10**9 // 150_000
    assert (directions[443, b.MS]["goodput_bps"], directions[443, b.MS]["gap_p50_ns"]) == (None, None)


def test_lines_hold_every_column() -> None:
    described = [column.name for column in records.load("pacing").columns]
    (row,) = rows(TCP, "--kind", "pacing")
    assert list(row) == ["kind", *described]
