"""The link emulator between real hosts: round-trip times, configured losses, its log."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from typing import Any

import pytest

from lab import internet
from tests.lab_network.running import Lab
from tests.waiting import until

NET = internet.load()
VANTAGES = [host.name for host in NET.hosts if host.kind == "vantage"]

# Sends to closed ports; the other kernel's ICMP is reported as an error: a round trip without a server.
# Prints, per datagram, address, local port, times of sending and of the answer (ns since 1970; null where no
# answer arrived while others did).
ASK = """
import json, select, socket, sys, time
count, expected = int(sys.argv[1]), int(sys.argv[2])
for ip in sys.argv[3:]:
    asked, answered = {}, {}
    for number in range(count):
        s = socket.socket(socket.AF_INET6 if ":" in ip else socket.AF_INET, socket.SOCK_DGRAM)
        s.connect((ip, 9))
        asked[s] = time.time_ns()
        s.send(b"x" * 1200)
        # One after the other, so that the other kernel's limit for ICMP lets all pass.
        if expected == count:
            select.select([s], [], [], 60)
            answered[s] = time.time_ns()
    end = time.time() + 60
    while len(answered) < expected and time.time() < end:
        for s in select.select([s for s in asked if s not in answered], [], [], 1)[0]:
            answered[s] = time.time_ns()
    for s, sent_ns in asked.items():
        try:
            s.setblocking(False)
            s.recv(1)
        except ConnectionRefusedError:
            print(json.dumps([ip, s.getsockname()[1], sent_ns, answered[s]]))
        except BlockingIOError:
            print(json.dumps([ip, s.getsockname()[1], sent_ns, None]))
"""

Row = dict[str, str]


def ask(lab: Lab, host: str, count: int, *ips: str, answered: int | None = None) -> list[tuple[Any, ...]]:
    """Send `count` datagrams to every address, all or `answered` of which are answered.

    Returns (ip, local port, sent, answered) in the order of sending.
    """
    expected = count if answered is None else answered
    output = lab.python(host, ASK, str(count), str(expected), *ips)
    return [tuple(json.loads(line)) for line in output.splitlines()]


def log(lab: Lab, wanted: Callable[[Row], object], count: int) -> list[Row]:
    """Return the matching lines of the log, once there are `count` of them."""

    def found() -> list[Row] | None:
        with (lab.state / "lateness.csv").open(newline="", encoding="ascii") as lines:
            rows = [row for row in csv.DictReader(lines) if row["arrived_ns"] and wanted(row)]
        return rows if len(rows) >= count else None

    return until(found, f"{count} lines in the log") or []


def passages(lab: Lab, host: str, asked: list[tuple[Any, ...]]) -> tuple[dict[str, Row], list[Row]]:
    """Return the lines of the datagrams from `host` to one address, by port, and of the ICMP answers."""
    ((ip, since_ns), ports) = min((to, sent) for to, _, sent, _ in asked), {str(one[1]) for one in asked}
    ours = (NET.host(host).v4, NET.host(host).v6)

    def there(row: Row) -> bool:
        return row["src"] in ours and row["dst"] == ip and row["dport"] == "9" and row["sport"] in ports

    def back(row: Row) -> bool:
        return row["src"] == ip and row["dst"] in ours and row["protocol"] in ("1", "58")

    def wanted(row: Row) -> bool:
        return int(row["arrived_ns"]) >= since_ns and (there(row) or back(row))

    rows = log(lab, wanted, 2 * len(ports))
    return {row["sport"]: row for row in rows if there(row)}, [row for row in rows if back(row)]


@pytest.mark.parametrize("vantage", VANTAGES)
def test_round_trip_times_are_as_declared(lab: Lab, vantage: str) -> None:
    """Each direction takes exactly half of it from the kernel's receive stamp; the log has the lateness.

    A link whose delay is wrong by a nanosecond fails, and one that releases a packet early as well.
    """
    others = {ip: host.name for host in NET.hosts if host.kind != "vantage" for ip in (host.v4, host.v6)}
    asked = ask(lab, vantage, 5, *others)
    assert len(asked) == 5 * len(others)
    for ip, name in others.items():
        rtt_ns = NET.rtt_us(vantage, name) * 1000
        there, back = passages(lab, vantage, [one for one in asked if one[0] == ip])
        assert len(there) == len(back) == 5, ip
        for row in (*there.values(), *back):
            assert row["fate"] == "sent"
            assert int(row["release_ns"]) - int(row["arrived_ns"]) == rtt_ns // 2, (vantage, name, row)
        for _, port, sent, answered in (one for one in asked if one[0] == ip):
            assert sent <= int(there[str(port)]["arrived_ns"])
            assert answered - sent >= rtt_ns, (vantage, name)


def test_every_other_flow_is_lost(lab: Lab) -> None:
    ip = next(drop.ip for drop in NET.drops if drop.rule == "odd_flows")
    asked = ask(lab, "hong_kong", 4, ip, answered=2)
    assert [answered is None for *_, answered in asked] == [True, False, True, False]
    ports = {str(port) for _, port, _, _ in asked}
    began = str(min(sent for _, _, sent, _ in asked))

    def ours(row: Row) -> bool:
        there = row["dst"] == ip and row["dport"] == "9" and row["sport"] in ports
        return there and row["arrived_ns"] >= began

    lost = [row for row in log(lab, ours, 4) if row["fate"] == "dropped"]
    assert [row["sport"] for row in lost] == [str(asked[n][1]) for n in (0, 2)]
    assert all(row["late_ns"] == "" for row in lost)


def test_the_first_answer_is_lost(lab: Lab) -> None:
    """A real instant ACK is dropped; the ServerHello after it arrives."""
    drop = next(drop for drop in NET.drops if drop.rule == "first_answer")
    name = next(e.domain for e in NET.endpoints if e.ip == drop.ip)
    code = (
        "import asyncio, sys\n"
        "from aioquic.asyncio.client import connect\n"
        "from aioquic.quic.configuration import QuicConfiguration\n"
        "async def main():\n"
        "    c = QuicConfiguration(is_client=True, alpn_protocols=['h3'], server_name=sys.argv[1],\n"
        "                          cafile=sys.argv[3])\n"
        "    async with connect(sys.argv[2], 443, configuration=c) as p:\n"
        "        await p.ping()\n"
        "asyncio.run(asyncio.wait_for(main(), 60))\n"
    )
    lab.python("hamburg", code, name, drop.ip, str(lab.state / "certificates" / "ca.pem"))
    answers = log(lab, lambda row: row["src"] == drop.ip and row["sport"] == "443", 3)
    assert [row["fate"] for row in answers[:2]] == ["dropped", "sent"]
    assert {row["fate"] for row in answers[1:]} == {"sent"}


def test_the_log_has_every_packet_and_its_lateness(lab: Lab) -> None:
    host = NET.host("meta")
    by_port, back = passages(lab, "centre", ask(lab, "centre", 20, host.v4))
    there = list(by_port.values())
    assert len(there) == len(back) == 20
    assert {(row["protocol"], row["dport"], row["ip_length"]) for row in there} == {("17", "9", "1228")}
    assert {row["protocol"] for row in back} == {"1"}
    lateness = [int(row["late_ns"]) for row in (*there, *back)]
    assert min(lateness) >= 0
    # The release follows the packet that it answers by half a round trip and a little.
    for one, other in zip(there, back, strict=True):
        after = int(other["release_ns"]) - int(one["release_ns"])
        assert after >= NET.rtt_us("centre", "meta") * 500


def test_edge_captures_see_what_the_edge_sends(lab: Lab) -> None:
    capture = lab.state / "captures" / "meta.pcap"
    before = capture.stat().st_size
    ask(lab, "centre", 3, NET.host("meta").v4)  # answered by ICMP, which is captured
    until(lambda: capture.stat().st_size > before, "the packets in the capture")
    assert capture.read_bytes()[:4] == bytes.fromhex("4d3cb2a1"), "a capture with nanoseconds, little endian"
