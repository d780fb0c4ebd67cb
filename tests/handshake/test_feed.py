"""Pauses of groups of targets, by commands on standard input."""

from __future__ import annotations

import json
import socket
import subprocess
import time
from pathlib import Path

import pytest

from .conftest import HOST, LOOPBACK, argv

PAUSE_S = 1.5


def start(folder: Path, port: int) -> subprocess.Popen[str]:
    """Run the engine over five targets of group 7 at one address, two a second."""
    lines = ["ip,domain,port,group", *(f"{HOST},n{number}.test,{port},7" for number in range(5))]
    (folder / "t.csv").write_text("\n".join(lines) + "\n")
    limits = ("--per-address-rate", "2", "--per-prefix-rate", "0", "--timeout", "0.3")
    command = argv("--targets", folder / "t.csv", "--feed", *limits, *LOOPBACK)
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


@pytest.mark.parametrize(
    ("command", "status", "outcomes"),
    [
        ("free 7\nend\n", 0, {"timeout"}),
        ("refuse 7\nend\n", 0, {"timeout", "blocked"}),
        ("", 130, {"timeout"}),
    ],
)
def test_a_group_is_paused_and_freed(tmp_path: Path, command: str, status: int, outcomes: set[str]) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind((HOST, 0))
        engine = start(tmp_path, silent.getsockname()[1])
        assert engine.stdin is not None
        engine.stdin.write("hold 7\n")
        engine.stdin.flush()
        time.sleep(PAUSE_S)
        out, err = engine.communicate(command, timeout=60)
    rows = [json.loads(line) for line in out.splitlines()]
    assert engine.returncode == status, err
    assert {row["outcome"] for row in rows} <= outcomes
    if status:
        # The feed broke off: what was begun is recorded, nothing more is sent.
        assert len(rows) <= 2
        return
    assert len(rows) == 5
    sent = sorted(row["sent_at"] for row in rows if row["sent_at"] is not None)
    refused = [row for row in rows if row["outcome"] == "blocked"]
    if "blocked" in outcomes:
        assert len(refused) >= 3 and "was paused" in refused[0]["detail"]
    else:
        # At most one or two left before the pause was read; the others had to wait for its end.
        assert sent[-3] - sent[0] > (PAUSE_S - 1) * 1e9 and len(sent) == 5
