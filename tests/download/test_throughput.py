"""Throughput of downloads, compared with the limits that the declared window, rate and round-trip time set.

A busy machine can only slow a download. Upper bounds therefore follow from the declaration. For equality
within 5 %, the tests read the machine's delays from the link's log of the same run (docs/design/0013,
rule 1): the lateness of windows and the idle time of the line. Slow start is computed.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from lab.system.link_log import LinkLog, Passage
from tests.download.world import SERVER_V4, SIZES, VANTAGE_V4, DownloadWorld
from tests.waiting import until

SIZE = SIZES["five"]
WINDOW = 65_535  # bytes: the largest window without scaling (RFC 9293 3.1)
SEGMENT, PACKET = 1448, 1500  # bytes: payload of a full segment with timestamps, and its IP packet
INITIAL_WINDOW = 10  # segments (RFC 6928)
RATE = 20_000_000
TOLERANCE = 0.05
FAULT = 0.1  # of a throughput or a rate: such an error must show

Row = dict[str, Any]
Downloads = tuple[dict[str, Row], dict[str, list[Passage]]]


def download(world: DownloadWorld, folder: Path, sets: str) -> Downloads:
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
        complete = [
            packets_of_flow
            for packets_of_flow in flows
            if sum(packet.ip_length for packet in packets_of_flow) > SIZE
        ]
        return sorted(complete) if len(complete) == len(rows) else None

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
def far_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DownloadWorld]:
    """A link of 50 ms without a rate limit."""
    folder = tmp_path_factory.mktemp("far")
    folder.chmod(0o755)
    with DownloadWorld(folder, 50_000) as world:
        yield world


@pytest.fixture(scope="module")
def far(far_world: DownloadWorld) -> Downloads:
    """Downloads at 50 ms without a rate limit; `warmup` and `bl` have no window scaling."""
    return download(far_world, far_world.folder / "run", "bl,ws14")


def until_end_of_body(packets: list[Passage]) -> list[Passage]:
    """Return the packets up to the last large packet of the body. Only small packets follow.

    A probe for a larger path MTU (RFC 8899) is longer than other packets, and there may be only one.
    """
    half = max(packet.ip_length for packet in packets) / 2
    last = max(number for number, packet in enumerate(packets) if packet.ip_length > half)
    return packets[: last + 1]


def rounds_ns(packets: list[Passage]) -> list[int]:
    """Return the times from each full segment to the first later segment outside of the same window.

    The later segment waits for an acknowledgement of the earlier one, so each time is a round trip.
    """
    full = [packet.arrived_ns for packet in packets if packet.ip_length == PACKET]
    return [last - first for first, last in zip(full, full[WINDOW // SEGMENT :], strict=False)]


@pytest.mark.parametrize("name", ["warmup", "bl"])
def test_without_scaling_a_round_trip_carries_64_kb(far: Downloads, name: str) -> None:
    rows, flows = far
    rounds = rounds_ns(flows[name])
    assert not any(packet.wait_ns or packet.dropped_by for packet in flows[name])
    # No window arrives early, and at least one of the 76 arrives on time, so it has the declared size.
    assert 50_000_000 <= min(rounds) <= 50_000_000 * (1 + TOLERANCE)
    # The first byte of the response arrives after three round trips (TCP, TLS 1.3, request). Each later
    # flight takes a round trip.
    trips = 2 + len(slow_start(WINDOW // SEGMENT))
    goodput = rows[name]["application_goodput_bps"]
    assert goodput <= SIZE * 8 / (trips * 0.050) * (1 + TOLERANCE)
    assert goodput <= WINDOW * 8 / 0.050
    # In the measured time, the round trips of TLS and the request lie between the SYN-ACK and the first full
    # segment. The other round trips are the windows'. The last packet may reach the client late.
    packets = until_end_of_body(flows[name])
    first = next(packet for packet in packets if packet.ip_length == PACKET)
    begin_ns = first.arrived_ns - packets[0].arrived_ns
    assert begin_ns >= 2 * 50_000_000
    taken_ns = (trips - 2) * statistics.mean(rounds) + begin_ns + (packets[-1].late_ns or 0)
    check_goodput(goodput, SIZE * 8e9 / taken_ns)


def test_with_scaling_it_carries_more(far: Downloads) -> None:
    """The window causes the bounds above: a download with a larger window exceeds them."""
    rows, flows = far
    assert min(rounds_ns(flows["ws14"])) < 50_000_000
    assert rows["ws14"]["application_goodput_bps"] > WINDOW * 8 / 0.050


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Downloads]:
    """Downloads at 20 ms through 20 Mbit/s; the queue is larger than the file."""
    folder = tmp_path_factory.mktemp("narrow")
    folder.chmod(0o755)
    line = {"from": "s", "to": "v", "rate_bps": RATE, "queue_packets": 10_000}
    with DownloadWorld(folder, 20_000, [line]) as world:
        yield download(world, folder / "run", "ws14,quiche,libcurl")


@pytest.fixture(scope="module")
def limits(
    far_world: DownloadWorld, far: Downloads, narrow: Downloads, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Row]:
    """Downloads with a known limit each. A line with a queue of two packets loses most of each burst."""
    folder = tmp_path_factory.mktemp("lossy")
    folder.chmod(0o755)
    line = {"from": "s", "to": "v", "rate_bps": RATE, "queue_packets": 2}
    slow, done = far_world.download(far_world.folder / "slow", [("slow", SERVER_V4)], "ws14")
    assert done.returncode == 0, done.stderr
    with DownloadWorld(folder, 50_000, [line]) as world:
        lossy, done = world.download(folder / "run", [("small", SERVER_V4)], "all14")
        assert done.returncode == 0, done.stderr
    return {
        "without scaling": far[0]["bl"],
        "slow start": far[0]["ws14"],
        "full line": narrow[0]["ws14"],
        "full line, without scaling": narrow[0]["warmup"],
        "slow application": slow[1],
        "losses": lossy[1],
        "over QUIC": narrow[0]["quiche"],
    }


FAR_SETS = {"without scaling": "bl", "slow start": "ws14"}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("without scaling", "receive_window"),
        ("slow start", "congestion_window"),
        ("full line", "path"),
        # 64 KB are more than the line holds in 20 ms, so a larger window would only lengthen the queue.
        ("full line, without scaling", "path"),
        ("slow application", "application"),
        ("losses", "congestion_window"),
        ("over QUIC", None),
    ],
)
def test_a_download_has_the_limit_of_its_link(
    limits: dict[str, Row], far_world: DownloadWorld, name: str, expected: str | None
) -> None:
    row = limits[name]
    for attempt in range(4):
        if row["limited_by"] == expected or name not in FAR_SETS:
            break
        # On a busy machine, late packets look like a queue on the path: the least disturbed download counts.
        folder = far_world.folder / f"{FAR_SETS[name]}-{attempt}"
        rows, done = far_world.download(folder, [("five", SERVER_V4)], "bl,ws14", "--fixed-order")
        assert done.returncode == 0, done.stderr
        (row,) = [row for row in rows if row["set"] == FAR_SETS[name]]
    assert row["outcome"] == "done"
    assert (row["retransmission_rate"] or 0) > 0 if name == "losses" else not row["retransmission_rate"]
    assert row["limited_by"] == expected, row


def departed_ns(packet: Passage) -> int:
    """Return when the last bit in a packet left."""
    return packet.arrived_ns + (packet.wait_ns or 0)


@pytest.mark.parametrize("name", ["warmup", "ws14", "quiche", "libcurl"])
def test_a_rate_gives_its_share_of_payload(narrow: Downloads, name: str) -> None:
    """Goodput = rate * payload / packet, after the idle round trips before the line is full."""
    rows, flows = narrow
    packets = until_end_of_body(flows[name])
    if name in ("warmup", "ws14"):
        # Two more round trips (TLS 1.3, request); flights shorter than one leave the line idle.
        flights = slow_start(SIZE)[:-1]
        idle_s = 2 * 0.020 + sum(max(0.0, 0.020 - flight * PACKET * 8 / RATE) for flight in flights)
        share = SEGMENT / PACKET
    else:
        # One more round trip, for the request. quic-go starts with 32 packets, nearly a full round trip.
        # Its headers vary.
        idle_s, share = 0.020, SIZE / sum(passage.ip_length for passage in packets)
        assert 0.94 < share < 0.97
    declared_s = 0.020 + idle_s + SIZE * 8 / (RATE * share)
    goodput = rows[name]["application_goodput_bps"]
    assert goodput <= SIZE * 8 / declared_s * (1 + TOLERANCE)
    assert goodput <= rows[name]["download_throughput_bps"] <= RATE
    idle_ns = sum(
        max(0, next_packet.arrived_ns - departed_ns(packet)) for packet, next_packet in pairwise(packets)
    )
    late_s = (packets[-1].late_ns or 0) / 1e9
    taken_s = declared_s + max(0.0, idle_ns / 1e9 - idle_s) + late_s
    check_goodput(goodput, SIZE * 8 / taken_s)


@pytest.mark.parametrize("name", ["ws14", "quiche", "libcurl"])
def test_the_log_shows_a_full_line(narrow: Downloads, name: str) -> None:
    """The log has no drop. Large windows fill the line, so packets leave at exactly the declared rate."""
    packets = narrow[1][name]
    assert not any(packet.dropped_by for packet in packets)
    rates = []
    for first in range(0, len(packets) - 100, 100):
        bits = sum(packet.ip_length * 8 for packet in packets[first + 1 : first + 101])
        rates.append(bits * 1e9 / (departed_ns(packets[first + 100]) - departed_ns(packets[first])))
    assert is_full_line(rates)
    for wrong in (1 - FAULT, 1 + FAULT):
        assert not is_full_line([rate * wrong for rate in rates]), "a line of another rate"


def is_full_line(rates: list[float]) -> bool:
    """Return whether packets left at the declared rate: never faster, and at it in the median."""
    return max(rates) <= RATE * (1 + 1e-6) and statistics.median(rates) >= RATE * (1 - TOLERANCE)
