"""Throughput of downloads against what window, rate and round-trip time allow, computed from the declaration.

A busy machine makes any download slower, and none faster. So upper bounds come from the declaration alone;
for equality within 5 %, the time that the machine took is read from the link's log of the same run
(docs/design/0013, rule 1): how much later than declared a window came, or how long the line was idle. Slow
start is computed.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from lab.link_log import LinkLog, Passage
from tests.download.world import SERVER_V4, SIZES, VANTAGE_V4, World
from tests.waiting import until

SIZE = SIZES["five"]
WINDOW = 65_535  # bytes: the most that a window without scaling offers (RFC 9293 3.1)
SEGMENT, PACKET = 1448, 1500  # bytes: payload of a full segment with timestamps, and its IP packet
INITIAL_WINDOW = 10  # segments (RFC 6928)
RATE = 20_000_000
TOLERANCE = 0.05
FAULT = 0.1  # of a throughput or a rate: such an error must show

Row = dict[str, Any]
Downloads = tuple[dict[str, Row], dict[str, list[Passage]]]


def download(world: World, folder: Path, sets: str) -> Downloads:
    """Download one file with these sets; return rows and the server's packets by the log, by set."""
    rows, done = world.download(folder, [("five", SERVER_V4)], sets, "--fixed-order")
    assert done.returncode == 0, done.stderr
    assert {(row["outcome"], row["body_bytes"]) for row in rows} == {("done", SIZE)}

    def logged() -> list[list[Passage]] | None:
        flows = [
            packets
            for flow, packets in LinkLog(world.lateness).flows()
            if flow[:2] == (SERVER_V4, VANTAGE_V4)
        ]
        # A connection per download; the log is written at least every 100 ms.
        whole = [each for each in flows if sum(one.ip_length for one in each) > SIZE]
        return sorted(whole) if len(whole) == len(rows) else None

    flows = until(logged, "the log of all downloads") or []
    names = [row["set"] for row in rows]
    return dict(zip(names, rows, strict=True)), dict(zip(names, flows, strict=True))


def is_computed(goodput: float, computed: float) -> bool:
    """Return whether a goodput is the computed one."""
    return abs(goodput / computed - 1) <= TOLERANCE


def check_goodput(goodput: float, computed: float) -> None:
    """Check a goodput, and that the same check finds one with an error."""
    assert is_computed(goodput, computed), (goodput, computed)
    assert not is_computed(goodput * (1 + FAULT), computed)
    assert not is_computed(goodput * (1 - FAULT), computed)


def slow_start(most: int) -> list[int]:
    """Return the flights of the file in segments: doubled each round trip (RFC 5681 3.1) up to `most`."""
    left, flight, flights = -(-SIZE // SEGMENT), INITIAL_WINDOW, []
    while left > 0:
        flights.append(min(flight, most, left))
        left -= flights[-1]
        flight *= 2
    return flights


@pytest.fixture(scope="module")
def far(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Downloads]:
    """Downloads at 50 ms without a rate; two of them without window scaling (warmup is `bl`)."""
    folder = tmp_path_factory.mktemp("far")
    folder.chmod(0o755)
    with World(folder, 50_000) as world:
        yield download(world, folder / "run", "bl,ws14")


def until_end_of_body(packets: list[Passage]) -> list[Passage]:
    """Return the packets up to the last one with a large piece of the body; what comes behind them is small.

    A packet that looks for a larger path MTU (RFC 8899) is longer than the rest, and may be alone.
    """
    half = max(each.ip_length for each in packets) / 2
    last = max(number for number, each in enumerate(packets) if each.ip_length > half)
    return packets[: last + 1]


def rounds_ns(packets: list[Passage]) -> list[int]:
    """Return the times from a full segment to the first that fits into no window with it.

    That one waits for an acknowledgement of the former, so each of these times is a round trip.
    """
    full = [each.arrived_ns for each in packets if each.ip_length == PACKET]
    return [last - first for first, last in zip(full, full[WINDOW // SEGMENT :], strict=False)]


@pytest.mark.parametrize("name", ["warmup", "bl"])
def test_without_scaling_a_round_trip_carries_64_kb(far: Downloads, name: str) -> None:
    rows, flows = far
    rounds = rounds_ns(flows[name])
    assert not any(each.wait_ns or each.dropped_by for each in flows[name])
    # No window comes early, and one of the 76 comes in time: it is as large as declared.
    assert 50_000_000 <= min(rounds) <= 50_000_000 * (1 + TOLERANCE)
    # The first byte of the response comes after three round trips (TCP, TLS 1.3, request); each has a flight.
    trips = 2 + len(slow_start(WINDOW // SEGMENT))
    goodput = rows[name]["application_goodput_bps"]
    assert goodput <= SIZE * 8 / (trips * 0.050) * (1 + TOLERANCE)
    assert goodput <= WINDOW * 8 / 0.050
    # Of the round trips of the time itself, TLS and the request lie between the SYN-ACK and the first full
    # segment; the others are those of the windows. The last packet may reach the client late.
    packets = until_end_of_body(flows[name])
    first = next(each for each in packets if each.ip_length == PACKET)
    begin_ns = first.arrived_ns - packets[0].arrived_ns
    assert begin_ns >= 2 * 50_000_000
    taken_ns = (trips - 2) * statistics.mean(rounds) + begin_ns + (packets[-1].late_ns or 0)
    check_goodput(goodput, SIZE * 8e9 / taken_ns)


def test_with_scaling_it_carries_more(far: Downloads) -> None:
    """The bounds above are those of the window: with a larger one none of them holds."""
    rows, flows = far
    assert min(rounds_ns(flows["ws14"])) < 50_000_000
    assert rows["ws14"]["application_goodput_bps"] > WINDOW * 8 / 0.050


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Downloads]:
    """Downloads at 20 ms through 20 Mbit/s, whose queue takes more than the file."""
    folder = tmp_path_factory.mktemp("narrow")
    folder.chmod(0o755)
    line = {"from": "s", "to": "v", "rate_bps": RATE, "queue_packets": 10_000}
    with World(folder, 20_000, [line]) as world:
        yield download(world, folder / "run", "ws14,quiche,libcurl")


def departed_ns(each: Passage) -> int:
    """Return when the last bit of a packet left."""
    return each.arrived_ns + (each.wait_ns or 0)


@pytest.mark.parametrize("name", ["warmup", "ws14", "quiche", "libcurl"])
def test_a_rate_gives_its_share_of_payload(narrow: Downloads, name: str) -> None:
    """Goodput = rate * payload / packet, after what round trips cost before the line is full."""
    rows, flows = narrow
    packets = until_end_of_body(flows[name])
    if name in ("warmup", "ws14"):
        # Two more round trips (TLS 1.3, request); flights shorter than one leave the line idle.
        flights = slow_start(SIZE)[:-1]
        idle_s = 2 * 0.020 + sum(max(0.0, 0.020 - flight * PACKET * 8 / RATE) for flight in flights)
        share = SEGMENT / PACKET
    else:
        # One more, for the request; quic-go begins with 32 packets, nearly a round trip. Its headers vary.
        idle_s, share = 0.020, SIZE / sum(each.ip_length for each in packets)
        assert 0.94 < share < 0.97
    declared_s = 0.020 + idle_s + SIZE * 8 / (RATE * share)
    goodput = rows[name]["application_goodput_bps"]
    assert goodput <= SIZE * 8 / declared_s * (1 + TOLERANCE)
    assert goodput <= rows[name]["download_throughput_bps"] <= RATE
    idle_ns = sum(max(0, other.arrived_ns - departed_ns(one)) for one, other in pairwise(packets))
    late_s = (packets[-1].late_ns or 0) / 1e9
    taken_s = declared_s + max(0.0, idle_ns / 1e9 - idle_s) + late_s
    check_goodput(goodput, SIZE * 8 / taken_s)


@pytest.mark.parametrize("name", ["ws14", "quiche", "libcurl"])
def test_the_log_shows_a_full_line(narrow: Downloads, name: str) -> None:
    """In the log's stamps: no drop, never more than the rate, and the rate itself: the windows are large."""
    packets = narrow[1][name]
    assert not any(each.dropped_by for each in packets)
    rates = []
    for first in range(0, len(packets) - 100, 100):
        bits = sum(each.ip_length * 8 for each in packets[first + 1 : first + 101])
        rates.append(bits * 1e9 / (departed_ns(packets[first + 100]) - departed_ns(packets[first])))
    assert is_full_line(rates)
    for wrong in (1 - FAULT, 1 + FAULT):
        assert not is_full_line([each * wrong for each in rates]), "a line of another rate"


def is_full_line(rates: list[float]) -> bool:
    """Return whether packets left at the declared rate: never faster, and at it in the median."""
    return max(rates) <= RATE * (1 + 1e-6) and statistics.median(rates) >= RATE * (1 - TOLERANCE)
