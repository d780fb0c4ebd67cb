"""Each row matches the server's sysctls and firewall, and the capture."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from firstflight.system import binaries
from schemas import records
from tests.tcp_options.conftest import ALLOW, OFFERED, SERVERS, CapturedServers, TcpServer, TcpWorld, engine
from tests.waiting import PATIENCE_S

OPTIONS = {
    "timestamps": "tcp_timestamps",
    "sack": "tcp_sack",
    "window_scaling": "tcp_window_scaling",
    "ecn": "tcp_ecn",
}
IN_CAPTURE = {"sack": "sack_permitted", "timestamps": "timestamps", "ecn": "ecn_setup"}
UNANSWERED = {"refuses.test": "refused", "prohibits.test": "unreachable", "drops.test": "timeout"}
ANSWERED = sorted(set(SERVERS) - set(UNANSWERED))


def test_every_target_has_a_row_with_the_columns_of_the_kind(captured: CapturedServers) -> None:
    assert sorted(captured.rows) == sorted(SERVERS)
    described = [
        column.name for column in records.load("tcp_option").columns if column.source == "tcp_options"
    ]
    for row in captured.rows.values():
        assert list(row) == described


@pytest.mark.parametrize("name", ANSWERED)
def test_options_are_those_of_the_server(captured: CapturedServers, name: str) -> None:
    row, server = captured.rows[name], SERVERS[name]
    assert row["outcome"] == "answered"
    assert {option: row[option] for option in OPTIONS} == {
        option: bool(server.sysctls.get(sysctl, 1)) for option, sysctl in OPTIONS.items()
    }
    assert row["mss"] == server.mtu - 40
    assert (row["wscale"] is None) == (not row["window_scaling"])
    assert row["rtt_us"] > 0 and row["syn_retransmissions"] == 0


@pytest.mark.parametrize("name", sorted(UNANSWERED))
def test_without_an_answer_nothing_is_known(captured: CapturedServers, name: str) -> None:
    row = captured.rows[name]
    assert (row["outcome"], row["connects"]) == (UNANSWERED[name], 1)
    unknown = (*OPTIONS, "mss", "wscale", "rtt_us", "syn_retransmissions")
    assert [row[column] for column in unknown] == [None] * len(unknown)


def test_a_lost_syn_is_sent_again(captured: CapturedServers) -> None:
    assert captured.rows["first-lost.test"]["connects"] == 2
    assert {captured.rows[name]["connects"] for name in ANSWERED if name != "first-lost.test"} == {1}


def test_the_capture_shows_the_same(captured: CapturedServers) -> None:
    argv = [str(binaries.find("firstflight-dissect")), str(captured.pcap), "--kind", "tcp_flow"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    rows = map(json.loads, done.stdout.splitlines())
    flows = {(flow["server_ip"], flow["client_port"]): flow for flow in rows}
    for name in ANSWERED:
        row = captured.rows[name]
        flow = flows[row["ip"], row["src_port"]]
        for column, of_flow in (
            ("sack", "sack_permitted"),
            ("timestamps", "timestamps"),
            ("ecn", "ecn_setup"),
        ):
            assert flow[f"{of_flow}_client"], (name, of_flow)
            assert row[column] == flow[f"{of_flow}_server"], (name, column)
        assert (row["mss"], row["wscale"]) == (flow["mss_server"], flow["wscale_server"]), name


def test_a_largest_segment_that_the_window_hides_is_null(world: TcpWorld, tmp_path: Path) -> None:
    """The window in the SYN-ACK is the largest multiple of the segment size up to the server's window."""
    targets = [
        (world.add(1, TcpServer(window=2048)), "small.test"),
        (world.add(2, TcpServer(window=16_384)), "large.test"),
    ]
    rows = world.ask(tmp_path, targets).rows
    found = {name: (row["outcome"], row["mss"]) for name, row in rows.items()}
    assert found == {"small.test": ("answered", None), "large.test": ("answered", 1460)}


def test_a_lost_syn_without_another_try_leaves_ecn_unknown(world: TcpWorld, tmp_path: Path) -> None:
    ip = world.add(1, SERVERS["first-lost.test"])
    row = world.ask(tmp_path, [(ip, "a.test")], "--attempts", 1).rows["a.test"]
    assert (row["outcome"], row["connects"], row["syn_retransmissions"]) == ("answered", 1, 1)
    assert [row[option] for option in OPTIONS] == [True, True, True, None]


@pytest.mark.parametrize("option", OPTIONS)
def test_an_option_that_is_not_offered_is_null_and_reported(
    world: TcpWorld, tmp_path: Path, option: str
) -> None:
    sysctl = OPTIONS[option]
    ip = world.add(1, TcpServer())
    world.sysctl(world.client, sysctl, 0)
    done = world.ask(tmp_path, [(ip, "a.test")])
    assert f"net.ipv4.{sysctl} is 1" in done.messages
    expected = {other: None if other == option else True for other in OPTIONS}
    assert {other: done.rows["a.test"][other] for other in OPTIONS} == expected


def test_no_sysctl_of_the_namespace_is_changed(world: TcpWorld, tmp_path: Path) -> None:
    values = "cat " + " ".join(f"/proc/sys/net/ipv4/{name}" for name in (*OFFERED, "tcp_syn_retries"))
    world.sysctl(world.client, "tcp_ecn", 2)
    read = world.inside(world.client, "sh", "-c", values)
    before = subprocess.run(read, capture_output=True, text=True, check=True).stdout
    world.ask(tmp_path, [(world.add(1, TcpServer()), "a.test")])
    assert subprocess.run(read, capture_output=True, text=True, check=True).stdout == before


def test_options_by_ipv6_are_those_of_the_server(world: TcpWorld, tmp_path: Path) -> None:
    """IPv6 uses the same settings; its header leaves 20 bytes less of the MTU."""
    for number, server in enumerate(
        (TcpServer(mtu=1400), TcpServer({"tcp_sack": 0}), TcpServer(listens=False))
    ):
        world.add(number, server)
    targets = [(TcpWorld.v6(number), f"n{number}.test") for number in range(3)]
    targets.append((TcpWorld.v6(9), "away.test"))
    (tmp_path / "block.txt").write_text("fd77:0:0:9::/64\n")
    rows = world.ask(tmp_path, targets, "--blocklist", tmp_path / "block.txt").rows
    found = {name: (row["outcome"], row["mss"], row["sack"], row["ecn"]) for name, row in rows.items()}
    assert found == {
        "n0.test": ("answered", 1340, True, True),
        "n1.test": ("answered", 1440, False, True),
        "n2.test": ("refused", None, None, None),
        "away.test": ("blocked", None, None, None),
    }
    assert [rows[f"n{number}.test"]["ip"] for number in range(3)] == [TcpWorld.v6(n) for n in range(3)]
    assert rows["n0.test"]["src_ip"] == "fd77::1"


def test_lists_are_kept(world: TcpWorld, tmp_path: Path) -> None:
    targets = [(world.add(number, TcpServer()), f"n{number}.test") for number in (1, 2, 3)]
    block, optout = tmp_path / "block.txt", tmp_path / "optout.txt"
    block.write_text(f"{targets[0][0]}\n")
    optout.write_text("n2.test\n")
    rows = world.ask(tmp_path, targets, "--blocklist", block, "--optout", optout).rows
    assert [rows[name]["outcome"] for _, name in targets] == ["blocked", "blocked", "answered"]
    assert [rows[name]["connects"] for _, name in targets] == [0, 0, 1]
    assert rows["n1.test"]["sent_at"] is None


def test_segments_are_resumed(world: TcpWorld, tmp_path: Path) -> None:
    targets = [(world.add(number, TcpServer()), f"n{number}.test") for number in (1, 2)]
    summary, segments = tmp_path / "summary.json", tmp_path / "segments"
    options = ("--segments", segments, "--summary", summary, "--format", "jsonl")
    assert len(world.ask(tmp_path, targets, *options).rows) == 2
    assert world.ask(tmp_path, targets, *options, "--resume").rows == {}
    found = json.loads(summary.read_text())
    assert (found["targets"], found["resumed"], found["connections"]) == (2, 2, 0)
    assert found["outcomes"]["answered"] == 2


def test_the_given_ports_and_source_are_used(world: TcpWorld, tmp_path: Path) -> None:
    targets = [(world.add(1, TcpServer()), "a.test")]
    options = ("--ports", "61000-61001", "--source", "10.77.1.1")
    row = world.ask(tmp_path, targets, *options).rows["a.test"]
    assert row["src_ip"] == "10.77.1.1" and row["src_port"] in (61000, 61001)


@pytest.mark.parametrize(
    ("targets", "options", "status", "message"),
    [
        ("192.0.2.1,,", ALLOW, 2, "give --contact"),
        ("10.77.0.1,,", (*ALLOW, "--attempts", "0"), 2, "0 is not in 1..=10"),
        ("10.77.0.1,,", (*ALLOW, "--rate", "0"), 2, "must be above 0"),
        ("10.77.0.1,,", (*ALLOW, "--dry-run"), 0, "1 targets, 0 of them blocked"),
        ("nonsense,,", ALLOW, 1, "1 lines of"),
    ],
)
def test_refusals_are_reported(
    tmp_path: Path, targets: str, options: tuple[str, ...], status: int, message: str
) -> None:
    path = tmp_path / "targets.csv"
    path.write_text(f"ip,domain,port\n{targets}\n")
    argv = engine("--targets", path, *options)
    done = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert (done.returncode, done.stdout) == (status, "") and message in done.stderr, done.stderr


def test_the_command_is_the_engine() -> None:
    argv = [sys.executable, "-m", "cli", "tcp-options", "--version"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    assert done.stdout.startswith("firstflight")
