"""Pauses of groups of targets, by commands on standard input."""

from __future__ import annotations

import json
import socket
import subprocess
import time
from pathlib import Path

import pytest

from tests.handshake.conftest import HOST, LOOPBACK, argv
from tests.waiting import PATIENCE_S, until

TARGETS = 40


def start(folder: Path, port: int) -> subprocess.Popen[str]:
    """Run the engine over targets of group 7 at one address, ten a second."""
    lines = ["ip,domain,port,group", *(f"{HOST},n{number}.test,{port},7" for number in range(TARGETS))]
    (folder / "t.csv").write_text("\n".join(lines) + "\n")
    limits = ("--per-address-rate", "10", "--per-prefix-rate", "0", "--timeout", "0.3")
    options = ("--targets", folder / "t.csv", "--feed", "--progress", folder / "progress")
    pipe = subprocess.PIPE
    return subprocess.Popen(
        argv(*options, *limits, *LOOPBACK), stdin=pipe, stdout=pipe, stderr=pipe, text=True
    )


def paused_at(engine: subprocess.Popen[str], progress: Path, since_ns: int) -> int:
    """Wait until the engine reports, after `since_ns`, that it waits for a pause; return the time in ns."""

    def found() -> int:
        assert engine.poll() is None, "the engine ended without a pause"
        try:
            at_ns, state = progress.stat().st_mtime_ns, json.loads(progress.read_text())
        except FileNotFoundError:
            return 0
        return at_ns if at_ns > since_ns and state["limit"] == "paused networks" else 0

    return until(found, "a pause")


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
        # Twice: half a second in which five would leave if the engine reported a pause and went on.
        first = paused_at(engine, tmp_path / "progress", 0)
        last = paused_at(engine, tmp_path / "progress", first)
        commanded = time.time_ns()
        out, err = engine.communicate(command, timeout=PATIENCE_S)
    rows = [json.loads(line) for line in out.splitlines()]
    assert engine.returncode == status, err
    assert {row["outcome"] for row in rows} <= outcomes
    sent = sorted(row["sent_at"] for row in rows if row["sent_at"] is not None)
    before_pause = [at for at in sent if at <= first]
    later = [at for at in sent if at > first]
    # Some datagrams leave before the engine reads the command, but no datagram leaves during the pause.
    assert len(before_pause) < TARGETS and first < last <= commanded
    assert all(at > commanded for at in later)
    if status:
        # The feed broke off: started connections are recorded, and the engine sends no further datagram.
        assert len(rows) == len(before_pause)
        return
    assert len(rows) == TARGETS
    refused = [row for row in rows if row["outcome"] == "blocked"]
    assert (len(later), len(refused)) == (
        (0, TARGETS - len(before_pause)) if "blocked" in outcomes else (TARGETS - len(before_pause), 0)
    )
    assert all("was paused" in row["detail"] for row in refused)
