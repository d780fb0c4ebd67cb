"""Misleading answers and ICMP: the prober reports the received packets, and the dissector agrees."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.attack.servers.answering import MOST_DELAY
from tests.dissect.conftest import Row, rows
from tests.dissect.test_prober_agrees import SAME
from tests.waiting import PATIENCE_S

ROOT = Path(__file__).parents[3]


@dataclass
class ProbedAnswer:
    """The prober's output, and the dissector's row of the same packets."""

    row: Row
    summary: dict[str, Any]
    dissected: Row

    def agree(self) -> None:
        """Fail where the two programs differ."""
        pairs = {column: (self.row[column], self.dissected[other]) for column, other in SAME.items()}
        assert {column: pair for column, pair in pairs.items() if pair[0] != pair[1]} == {}


def attack(folder: Path, *arguments: object) -> ProbedAnswer:
    """Run `answering` in a separate namespace."""
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    up = 'ip link set lo up && exec "$@"'
    program = [sys.executable, "-m", "tests.attack.servers.answering", str(folder), *map(str, arguments)]
    done = subprocess.run(
        ["unshare", *user, "--net", "sh", "-c", up, "sh", *program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    output = json.loads(done.stdout)
    (dissected,) = rows(folder / "probe.pcap")
    return ProbedAnswer(output["row"], output["summary"], dissected)


@pytest.mark.parametrize(
    ("answer", "outcome", "size"),
    [
        ("ordinary", "coalesced", 1200),
        ("large", "coalesced", 2049),
        ("larger", "coalesced", 9000),
        ("largest", "coalesced", 16000),
    ],
)
def test_datagrams_are_read_whole(tmp_path: Path, answer: str, outcome: str, size: int) -> None:
    attempt = attack(tmp_path, answer)
    row = attempt.row
    assert (row["outcome"], row["ack_datagram_bytes"], row["bytes_received"]) == (outcome, size, size)
    attempt.agree()


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [("short hello", "ack_only"), ("short hello alone", "malformed"), ("long hello", "malformed")],
)
def test_a_server_hello_has_the_length_of_one(tmp_path: Path, answer: str, outcome: str) -> None:
    attempt = attack(tmp_path, answer)
    assert (attempt.row["outcome"], attempt.row["sh_us"]) == (outcome, None)
    assert "ServerHello length" in attempt.row["detail"]
    attempt.agree()


@pytest.mark.parametrize(
    ("answer", "raw", "us"),
    [
        ("most delay that fits", (1 << 60) - 1, (1 << 63) - 8),
        ("smallest delay that does not fit", 1 << 60, None),
        ("most delay", MOST_DELAY, None),
    ],
)
def test_a_delay_that_does_not_fit_is_null(tmp_path: Path, answer: str, raw: int, us: int | None) -> None:
    attempt = attack(tmp_path, answer)
    assert (attempt.row["ack_delay_raw"], attempt.row["ack_delay_us"]) == (raw, us)
    assert attempt.dissected["initial_ack_delay_us"] == us
    attempt.agree()


@pytest.mark.parametrize(
    ("source", "quoted", "answer", "outcome"),
    [
        # Only ports, from another host: they can be guessed.
        ("127.0.0.66", 8, "ordinary", "coalesced"),
        ("127.0.0.66", 8, "nothing", "timeout"),
        ("127.0.0.66", 8 + 22, "nothing", "timeout"),
        # Only ports, from the server itself: many routers and hosts send only these.
        ("127.0.0.1", 8, "nothing", "refused"),
        # A quoted connection ID proves that the sender is on the path.
        ("127.0.0.66", 8 + 23, "nothing", "refused"),
    ],
)
def test_icmp_without_the_connection_id_ends_nothing(
    tmp_path: Path, source: str, quoted: int, answer: str, outcome: str
) -> None:
    attempt = attack(tmp_path, answer, source, quoted)
    row = attempt.row
    assert (row["outcome"], row["icmp_type"], row["icmp_code"]) == (outcome, 3, 3)
    noted = outcome != "refused"
    assert attempt.summary["unproven_icmp"] == int(noted)
    if noted:
        assert f"unreachable from {source}: the sender is not the server" in row["detail"]
    attempt.agree()
