"""The link emulator between real hosts: round-trip times, configured losses, the log."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from typing import Any

import pytest

from lab.declared import internet
from tests.lab_network.running import Lab
from tests.waiting import until

NET = internet.load()
VANTAGES = [host.name for host in NET.hosts if host.kind == "vantage"]

# Sends to closed ports. The ICMP error from the other kernel completes a round trip without a server.
# Prints, per datagram: address, local port, send time, answer time (ns since 1970; null without an answer).
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
        # Send one at a time, to stay below the other kernel's rate limit for ICMP.
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
    """Send `count` datagrams to every address, and wait for `answered` answers (default: all).

    Returns (ip, local port, sent, answered) in the order of sending.
    """
    expected = count if answered is None else answered
    output = lab.python(host, ASK, str(count), str(expected), *ips)
    return [tuple(json.loads(line)) for line in output.splitlines()]


def log(lab: Lab, wanted: Callable[[Row], object], count: int) -> list[Row]:
    """Wait for `count` matching lines in the log, and return them."""

    def found() -> list[Row] | None:
        with (lab.state / "lateness.csv").open(newline="", encoding="ascii") as lines:
            rows = [row for row in csv.DictReader(lines) if row["arrived_ns"] and wanted(row)]
        return rows if len(rows) >= count else None

    return until(found, f"{count} lines in the log") or []


def passages(lab: Lab, host: str, sent_questions: list[tuple[Any, ...]]) -> tuple[dict[str, Row], list[Row]]:
    """Return the lines for datagrams from `host` to one address, by port, and for the ICMP answers."""
    ((ip, since_ns), ports) = (
        min((to, sent) for to, _, sent, _ in sent_questions),
        {str(question[1]) for question in sent_questions},
    )
    ours = (NET.host(host).v4, NET.host(host).v6)

    def is_question(row: Row) -> bool:
        return row["src"] in ours and row["dst"] == ip and row["dport"] == "9" and row["sport"] in ports

    def is_answer(row: Row) -> bool:
        return row["src"] == ip and row["dst"] in ours and row["protocol"] in ("1", "58")

    def wanted(row: Row) -> bool:
        return int(row["arrived_ns"]) >= since_ns and (is_question(row) or is_answer(row))

    rows = log(lab, wanted, 2 * len(ports))
    return {row["sport"]: row for row in rows if is_question(row)}, [row for row in rows if is_answer(row)]


@pytest.mark.parametrize("vantage", VANTAGES)
def test_round_trip_times_are_as_declared(lab: Lab, vantage: str) -> None:
    """The delay in each direction is exactly half of the round-trip time.

    It starts at the kernel's receive timestamp, and the log has the lateness of the release. The test fails
    if the delay is wrong by a nanosecond, or if the link releases a packet early.
    """
    others = {ip: host.name for host in NET.hosts if host.kind != "vantage" for ip in (host.v4, host.v6)}
    sent_questions = ask(lab, vantage, 5, *others)
    assert len(sent_questions) == 5 * len(others)
    for ip, name in others.items():
        rtt_ns = NET.rtt_us(vantage, name) * 1000
        questions, answers = passages(
            lab, vantage, [question for question in sent_questions if question[0] == ip]
        )
        assert len(questions) == len(answers) == 5, ip
        for row in (*questions.values(), *answers):
            assert row["fate"] == "sent"
            assert int(row["release_ns"]) - int(row["arrived_ns"]) == rtt_ns // 2, (vantage, name, row)
        for _, port, sent, answered in (question for question in sent_questions if question[0] == ip):
            assert sent <= int(questions[str(port)]["arrived_ns"])
            assert answered - sent >= rtt_ns, (vantage, name)


def test_every_other_flow_is_lost(lab: Lab) -> None:
    ip = next(drop.ip for drop in NET.drops if drop.rule == "odd_flows")
    sent_questions = ask(lab, "hong_kong", 4, ip, answered=2)
    assert [answered is None for *_, answered in sent_questions] == [True, False, True, False]
    ports = {str(port) for _, port, _, _ in sent_questions}
    began = str(min(sent for _, _, sent, _ in sent_questions))

    def ours(row: Row) -> bool:
        is_question = row["dst"] == ip and row["dport"] == "9" and row["sport"] in ports
        return is_question and row["arrived_ns"] >= began

    lost = [row for row in log(lab, ours, 4) if row["fate"] == "dropped"]
    assert [row["sport"] for row in lost] == [str(sent_questions[n][1]) for n in (0, 2)]
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
    by_port, answers = passages(lab, "centre", ask(lab, "centre", 20, host.v4))
    questions = list(by_port.values())
    assert len(questions) == len(answers) == 20
    assert {(row["protocol"], row["dport"], row["ip_length"]) for row in questions} == {("17", "9", "1228")}
    assert {row["protocol"] for row in answers} == {"1"}
    lateness = [int(row["late_ns"]) for row in (*questions, *answers)]
    assert min(lateness) >= 0
    # The answer is released at least half a round trip after the packet that it answers.
    for packet, answer in zip(questions, answers, strict=True):
        after = int(answer["release_ns"]) - int(packet["release_ns"])
        assert after >= NET.rtt_us("centre", "meta") * 500


def test_edge_captures_see_what_the_edge_sends(lab: Lab) -> None:
    capture = lab.state / "captures" / "meta.pcap"
    before = capture.stat().st_size
    ask(lab, "centre", 3, NET.host("meta").v4)  # answered by ICMP, which is captured
    until(lambda: capture.stat().st_size > before, "the packets in the capture")
    assert capture.read_bytes()[:4] == bytes.fromhex("4d3cb2a1"), (
        "not a little-endian pcap file in nanoseconds"
    )
