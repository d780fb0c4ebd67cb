"""Link rates and queues between real hosts. Each wait and drop is recomputed from the log's timestamps."""

from __future__ import annotations

import json
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import pairwise
from math import ceil
from pathlib import Path
from typing import Any

import pytest

from firstflight.errors import UsageError
from lab.declared import internet
from lab.declared.internet import DEFAULT, Internet
from lab.declared.model import Bottleneck
from lab.expected.truth import paths
from lab.system import link_log
from tests.lab_network.running import Lab
from tests.waiting import until

DECLARED = """
[[bottleneck]]
host = "hamburg"
to_host = { rate_bps = 7_000_000, queue_packets = 30 }
from_host = { rate_bps = 3_000_000, queue_bytes = 6_000 }

[[bottleneck]]
host = "los_angeles"
peer = "web"
to_host = { rate_bps = 20_000_000, queue_packets = 100, queue_bytes = 40_000 }
"""

# Sends datagrams of various sizes back to back to a closed port.
BURST = """
import socket, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
    for number in range(int(sys.argv[2])):
        s.sendto(b"x" * (200 + 97 * number % 1270), (sys.argv[1], 9))
"""
SERVE = """
import hashlib, os, socket, sys
with socket.create_server(("0.0.0.0", 0)) as s:
    print(s.getsockname()[1], flush=True)
    connection, _ = s.accept()
    body = os.urandom(int(sys.argv[1]))
    connection.sendall(body)
    connection.close()
    print(hashlib.sha256(body).hexdigest())
"""
FETCH = """
import hashlib, socket, sys
digest = hashlib.sha256()
with socket.create_connection((sys.argv[1], int(sys.argv[2]))) as s:
    while chunk := s.recv(65536):
        digest.update(chunk)
print(digest.hexdigest())
"""

Row = dict[str, str]


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A lab with the bottlenecks above."""
    folder = tmp_path_factory.mktemp("narrow")
    behaviour = folder / "internet.toml"
    behaviour.write_text(DEFAULT.read_text(encoding="utf-8") + DECLARED, encoding="utf-8")
    made = Lab(folder / "lab")
    try:
        made.run("up", "--behaviour", str(behaviour))
        yield made
    finally:
        made.run("down")


@pytest.fixture(scope="module")
def net(narrow: Lab) -> Internet:
    """Return the lab's configuration."""
    return internet.load(narrow.state / "internet.toml")


def await_lines(lab: Lab, wanted: Callable[[Row], object], count: int) -> list[Row]:
    """Return the matching lines of the log, once there are `count`."""

    def found() -> list[Row] | None:
        rows = [row for row in link_log.rows(lab.state / "lateness.csv") if wanted(row)]
        return rows if len(rows) >= count else None

    return until(found, f"{count} lines in the log") or []


def up_to_now(lab: Lab, source: str, to: str) -> list[Row]:
    """Send a datagram, and return the log lines between two addresses up to and including it.

    The log has a dropped packet at its arrival, and a queued packet only at its release. Lines of packets
    that arrived before a drop can therefore be missing until the last datagram's line is in the log.
    """
    since_ns = time.time_ns()

    def ours(row: Row) -> bool:
        return (row["src"], row["dst"]) == (source, to)

    def is_last(row: Row) -> bool:
        return ours(row) and row["dport"] == "9" and int(row["arrived_ns"]) >= since_ns

    def one_passed() -> int | None:
        lab.python("web", BURST, to, "1")
        sent = (row for row in link_log.rows(lab.state / "lateness.csv") if is_last(row))
        return next((int(row["arrived_ns"]) for row in sent if row["fate"] == "sent"), None)

    last_ns = until(one_passed, "a datagram that the queue accepts")
    assert last_ns is not None
    rows = link_log.rows(lab.state / "lateness.csv")
    return [row for row in rows if ours(row) and int(row["arrived_ns"]) <= last_ns]


def departed(row: Row) -> int:
    """Return when the last bit left, in ns."""
    return int(row["arrived_ns"]) + int(row["wait_ns"])


def check(rows: list[Row], line: Bottleneck, delay_ns: Callable[[Row], int]) -> int:
    """Recompute each packet's wait or drop at a bottleneck; return the number of drops."""
    free, inside, drops = Fraction(0), deque[tuple[int, int]](), 0
    # If two packets have the same timestamp, the queued one arrived first.
    for row in sorted(rows, key=lambda row: (int(row["arrived_ns"]), int(row["release_ns"]))):
        arrived, length = int(row["arrived_ns"]), int(row["ip_length"])
        while inside and inside[0][0] <= arrived:
            inside.popleft()
        packets, total = len(inside) + 1, length + sum(size for _, size in inside)
        full = packets > (line.queue_packets or packets) or total > (line.queue_bytes or total)
        assert (row["fate"], row["dropped_by"]) == (("dropped", "queue") if full else ("sent", "")), row
        if full:
            drops += 1
            assert (row["wait_ns"], row["late_ns"]) == ("", "")
            assert int(row["release_ns"]) - arrived == delay_ns(row)
            continue
        free = max(free, Fraction(arrived)) + Fraction(length * 8 * 10**9, line.rate_bps)
        assert departed(row) == ceil(free), row
        assert int(row["release_ns"]) == ceil(free) + delay_ns(row), row
        inside.append((ceil(free), length))
    return drops


def delay_between(net: Internet) -> Callable[[Row], int]:
    """Return a function that computes the delay for a line's packet, in ns."""
    owner = {ip: host.name for host in net.hosts for ip in (host.v4, host.v6, *host.more)}
    return lambda row: net.rtt_us(owner[row["src"]], owner[row["dst"]]) * 500


def burst(lab: Lab, net: Internet, source: str, destination: str) -> list[Row]:
    """Send 150 datagrams from one host to another; return their log lines."""
    ends, since_ns = (net.host(source).v4, net.host(destination).v4), time.time_ns()
    lab.python(source, BURST, ends[1], "150")

    def ours(row: Row) -> bool:
        flow = (row["src"], row["dst"]) == ends and row["dport"] == "9"
        return flow and int(row["arrived_ns"]) >= since_ns

    return await_lines(lab, ours, 150)


def test_a_burst_leaves_at_the_rate_and_the_rest_is_dropped(narrow: Lab, net: Internet) -> None:
    """Hamburg's access has a queue in each direction: 30 packets towards it, 6,000 bytes from it.

    The check does not depend on how fast the sender is scheduled. 150 datagrams exceed both queues.
    """
    for source, destination in (("web", "hamburg"), ("hamburg", "dns")):
        line = net.bottleneck(source, destination)
        assert line is not None
        rows = burst(narrow, net, source, destination)
        key, ip = ("dst", rows[0]["dst"]) if line.to_host else ("src", rows[0]["src"])
        # Other packets on the link count too, such as hamburg's ICMP messages in the second case.
        everything = [row for row in link_log.rows(narrow.state / "lateness.csv") if row[key] == ip]
        assert len(rows) == 150
        dropped = sum(row["dropped_by"] == "queue" for row in rows)
        assert check(everything, line, delay_between(net)) >= dropped > 0


def test_all_paths_of_a_host_share_its_access(narrow: Lab, net: Internet) -> None:
    """The link transmits one packet at a time, so packets from both sources wait for each other."""
    to, since_ns = net.host("hamburg").v4, time.time_ns()
    senders = [narrow.start(host, sys.executable, "-c", BURST, to, "25") for host in ("dns", "web")]
    assert [sender.wait() for sender in senders] == [0, 0]
    sources = {net.host(host).v4 for host in ("dns", "web")}

    def ours(row: Row) -> bool:
        flow = row["src"] in sources and row["dst"] == to and row["dport"] == "9"
        return flow and int(row["arrived_ns"]) >= since_ns

    rows = await_lines(narrow, ours, 50)
    sent = sorted((row for row in rows if row["fate"] == "sent"), key=departed)
    line = net.bottleneck("dns", "hamburg")
    assert line is not None
    assert line == net.bottleneck("web", "hamburg")
    assert {row["src"] for row in sent} == sources
    for packet, next_packet in pairwise(sent):
        transmission = Fraction(int(next_packet["ip_length"]) * 8 * 10**9, line.rate_bps)
        assert departed(next_packet) - departed(packet) > transmission - 1, (packet, next_packet)


def test_a_bulk_transfer_gets_the_rate(narrow: Lab, net: Internet) -> None:
    """TCP fills the link. TCP retransmits the packets that the full queue drops, and all data arrives."""
    to, web = net.host("los_angeles").v4, net.host("web").v4
    line = net.bottleneck("web", "los_angeles")
    assert line is not None
    size = 3_000_000
    server = narrow.start("web", sys.executable, "-c", SERVE, str(size))
    assert server.stdout is not None
    port = server.stdout.readline().strip()
    received = narrow.python("los_angeles", FETCH, web, port).strip()
    assert received == server.communicate()[0].strip()
    rows = up_to_now(narrow, web, to)
    assert len(rows) > size // 1460
    assert check(rows, line, delay_between(net)) > 0, "slow start must overflow the queue"
    # While packets were queued, the link ran at its rate; each end of the interval is exact to 1 ns.
    sent = sorted((row for row in rows if row["fate"] == "sent"), key=departed)
    bits = longest = 0
    since = departed(sent[0])
    for packet, next_packet in pairwise(sent):
        if int(next_packet["arrived_ns"]) > departed(packet):
            bits, since = 0, departed(next_packet)
            continue
        bits += int(next_packet["ip_length"]) * 8
        longest = max(longest, bits)
        assert abs((departed(next_packet) - since) * line.rate_bps - bits * 10**9) <= line.rate_bps
    # There were drops, so the queue was full, and its packets left back to back. Two packets may be missing
    # from that sequence: the dropped one, and the first one, which did not wait. TCP decides how many more
    # packets arrived meanwhile.
    assert line.queue_bytes is not None
    assert longest >= (line.queue_bytes - 2 * 1500) * 8
    # The other direction has no rate.
    back = [row for row in link_log.rows(narrow.state / "lateness.csv") if row["src"] == to]
    assert {row["wait_ns"] for row in back} == {"0"}


def test_truth_names_rate_and_queue(narrow: Lab) -> None:
    found = {
        (line["vantage"], line["host"]): line
        for line in map(json.loads, narrow.run("truth", "--paths").splitlines())
    }
    assert len(found) == 4 * (len(internet.load().hosts) - 1)
    web, dns = found["los_angeles", "web"], found["hamburg", "dns"]
    limits: dict[str, Any] = {
        "rate_bps": 20_000_000,
        "queue_packets": 100,
        "queue_bytes": 40_000,
        "shared": False,
    }
    assert (web["rtt_us"], web["to_vantage"], web["from_vantage"]) == (12_000, limits, None)
    limits = {"rate_bps": 3_000_000, "queue_packets": None, "queue_bytes": 6_000, "shared": True}
    assert (dns["rtt_us"], dns["from_vantage"]) == (4_000, limits)
    assert found["los_angeles", "hamburg"]["from_vantage"] == dns["to_vantage"]
    assert found["hong_kong", "web"]["to_vantage"] is found["hong_kong", "web"]["from_vantage"] is None


def test_without_bottlenecks_nothing_is_limited() -> None:
    net = internet.load()
    assert net.bottlenecks == ()
    assert all(line["to_vantage"] is line["from_vantage"] is None for line in paths(net))


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ('host = "x"\nto_host = { rate_bps = 9000, queue_packets = 1 }', "no host 'x'"),
        ('host = "web"\npeer = "x"\nto_host = { rate_bps = 9000, queue_packets = 1 }', "no host 'x'"),
        ('host = "web"\npeer = "web"\nto_host = { rate_bps = 9000, queue_packets = 1 }', "the host itself"),
        ('host = "web"', "needs `to_host` or `from_host`"),
        ('host = "web"\nto_host = { rate_bps = 9000 }', "needs `queue_packets` or `queue_bytes`"),
        ('host = "web"\nto_host = { rate_bps = 0, queue_packets = 1 }', "to_host.rate_bps"),
        ('host = "web"\nto_host = { rate_bps = 9000, queue_packets = 0 }', "to_host.queue_packets"),
        ('host = "web"\nto_host = { rate_bps = 9000, queue_bytes = 1499 }', "to_host.queue_bytes"),
        (
            'host = "web"\npeer = "los_angeles"\nto_host = { rate_bps = 9000, queue_packets = 1 }',
            "web and los_angeles twice",
        ),
        (
            'host = "web"\nfrom_host = { rate_bps = 9000, queue_packets = 1 }',
            "packets from web to hamburg pass two: declare one for the path",
        ),
    ],
)
def test_wrong_bottlenecks(tmp_path: Path, entry: str, message: str) -> None:
    file = tmp_path / "internet.toml"
    text = DEFAULT.read_text(encoding="utf-8")
    file.write_text(f"{text}{DECLARED}\n[[bottleneck]]\n{entry}\n", encoding="utf-8")
    with pytest.raises(UsageError, match=message) as failed:
        internet.load(file)
    assert len(str(failed.value).splitlines()) == 1


def test_two_on_a_path_need_a_third(tmp_path: Path) -> None:
    """A bottleneck on a path overrides the bottlenecks of both hosts, only in the declared direction."""
    file = tmp_path / "internet.toml"
    more = """
[[bottleneck]]
host = "web"
from_host = { rate_bps = 9_000, queue_packets = 1 }

[[bottleneck]]
host = "hamburg"
peer = "web"
to_host = { rate_bps = 8_000, queue_packets = 2 }
"""
    file.write_text(DEFAULT.read_text(encoding="utf-8") + DECLARED + more, encoding="utf-8")
    net = internet.load(file)

    def rate(source: str, destination: str) -> int | None:
        found = net.bottleneck(source, destination)
        return None if found is None else found.rate_bps

    assert rate("web", "hamburg") == 8_000
    assert rate("hamburg", "web") == 3_000_000
    assert rate("web", "dns") == 9_000
    assert rate("web", "los_angeles") == 20_000_000
    assert rate("dns", "hamburg") == 7_000_000
    assert rate("dns", "web") is None
