"""The link emulator between real hosts: round-trip times, chosen losses, its log."""

from __future__ import annotations

import csv
import json
import statistics
import time
from typing import Any

import pytest

from lab import internet
from tests.lab_network.running import Lab

NET = internet.load()
VANTAGES = [host.name for host in NET.hosts if host.kind == "vantage"]

# Asks ports where nobody listens; the other kernel's ICMP comes back as an error: a round trip without a
# server. Prints, per address, round-trip times in ms, null where nothing came back.
ASK = """
import json, socket, sys, time
for ip in sys.argv[2:]:
    times = []
    for _ in range(int(sys.argv[1])):
        s = socket.socket(socket.AF_INET6 if ":" in ip else socket.AF_INET, socket.SOCK_DGRAM)
        s.settimeout(0.6)
        s.connect((ip, 9))
        began = time.perf_counter()
        s.send(b"x" * 1200)
        try:
            s.recv(1)
        except ConnectionRefusedError:
            times.append((time.perf_counter() - began) * 1000)
        except TimeoutError:
            times.append(None)
    print(json.dumps([ip, times]))
"""


def ask(lab: Lab, host: str, count: int, *ips: str) -> dict[str, list[float | None]]:
    return dict(json.loads(line) for line in lab.python(host, ASK, str(count), *ips).splitlines())


def log(lab: Lab) -> list[dict[str, Any]]:
    time.sleep(0.3)
    with (lab.state / "lateness.csv").open(newline="", encoding="ascii") as lines:
        return list(csv.DictReader(lines))


@pytest.mark.parametrize("vantage", VANTAGES)
def test_round_trip_times_are_as_declared(lab: Lab, vantage: str) -> None:
    others = {ip: host.name for host in NET.hosts if host.kind != "vantage" for ip in (host.v4, host.v6)}
    for ip, times in ask(lab, vantage, 5, *others).items():
        declared = NET.rtt_us(vantage, others[ip]) / 1000
        seen = [ms for ms in times if ms is not None]
        assert len(seen) == 5, ip
        assert declared <= min(seen) < declared + 1, f"{vantage} to {others[ip]} ({ip}): {seen}"


def test_every_other_flow_is_lost(lab: Lab) -> None:
    ip = next(drop.ip for drop in NET.drops if drop.rule == "odd_flows")
    times = ask(lab, "hong_kong", 4, ip)[ip]
    assert [ms is None for ms in times] == [True, False, True, False]
    lost = [row for row in log(lab) if row["fate"] == "dropped" and row["dst"] == ip and row["dport"] == "9"]
    assert len(lost) == 2
    assert all(row["late_ns"] == "" for row in lost)


def test_the_first_answer_is_lost(lab: Lab) -> None:
    """A real instant ACK vanishes; the ServerHello behind it arrives."""
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
        "asyncio.run(asyncio.wait_for(main(), 10))\n"
    )
    lab.python("hamburg", code, name, drop.ip, str(lab.state / "certificates" / "ca.pem"))
    answers = [row for row in log(lab) if row["src"] == drop.ip and row["sport"] == "443"]
    assert [row["fate"] for row in answers[:2]] == ["dropped", "sent"]
    assert {row["fate"] for row in answers[1:]} == {"sent"}


def test_the_log_has_every_packet_and_its_lateness(lab: Lab) -> None:
    host = NET.host("meta")
    before = len(log(lab))
    ask(lab, "centre", 20, host.v4)
    rows = [row for row in log(lab)[before:] if host.v4 in (row["src"], row["dst"])]
    there = [row for row in rows if row["dst"] == host.v4]
    back = [row for row in rows if row["src"] == host.v4]
    assert len(there) == len(back) == 20
    assert {(row["protocol"], row["dport"], row["ip_length"]) for row in there} == {("17", "9", "1228")}
    assert {row["protocol"] for row in back} == {"1"}
    lateness = [int(row["late_ns"]) for row in rows]
    assert min(lateness) >= 0
    # A busy machine makes single packets late; half of them hardly.
    assert statistics.median(lateness) < 300_000
    # The release follows the packet that it answers by half a round trip and a little.
    for one, other in zip(there, back, strict=True):
        after = int(other["release_ns"]) - int(one["release_ns"])
        assert after >= NET.rtt_us("centre", "meta") * 500


def test_edge_captures_see_what_the_edge_sends(lab: Lab) -> None:
    capture = lab.state / "captures" / "meta.pcap"
    before = capture.stat().st_size
    ask(lab, "centre", 3, NET.host("meta").v4)  # answered by ICMP, which is captured
    time.sleep(0.3)
    assert capture.stat().st_size > before
    assert capture.read_bytes()[:4] == bytes.fromhex("4d3cb2a1"), "a capture with nanoseconds, little endian"
