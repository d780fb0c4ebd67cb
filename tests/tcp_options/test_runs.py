"""Runs that are stopped, killed, continued, paused, or share their limits: each target has one row."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from scanner.backoff.pauses import REFUSED_DETAIL
from tests.engines.feeding import started
from tests.engines.segments import rows_of
from tests.engines.shared_limits import EACH, check_turns
from tests.prober.conftest import FAST, LOOPBACK, Target, write_targets
from tests.tcp_options.conftest import engine
from tests.waiting import PATIENCE_S, until

# At the slow rate, this takes 15 s, so that a run does not finish before a stalled test stops it.
COUNT = 600
SLOW, REST = ("--rate", "40"), ("--rate", "500")


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """The port of a server on all loopback addresses. It accepts and closes connections."""
    server = socket.create_server(("0.0.0.0", 0), backlog=1000)

    def accept() -> None:
        while True:
            try:
                server.accept()[0].close()
            except OSError:
                return  # closed below

    thread = threading.Thread(target=accept)
    thread.start()
    yield int(server.getsockname()[1])
    server.shutdown(socket.SHUT_RDWR)
    server.close()
    thread.join()


def names(port: int, count: int = COUNT) -> list[Target]:
    """Return targets at several addresses."""
    return [(f"127.7.0.{number % 50 + 1}", f"n{number}.test", port) for number in range(count)]


def start(command: Sequence[str]) -> subprocess.Popen[str]:
    """Start the engine; the stderr is a pipe."""
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


def finish(command: Sequence[str]) -> None:
    """Run the engine to the end."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_stopped_run_resumes_where_it_was(tmp_path: Path, port: int, how: signal.Signals) -> None:
    path = write_targets(tmp_path / "t.csv", names(port))
    folder, summary = tmp_path / "segments", tmp_path / "summary.json"
    common = engine("--targets", path, "--segments", folder, "--summary", summary, *LOOPBACK, *FAST)
    first = start([*common, *SLOW])
    until(lambda: len(rows_of(folder)) >= 10, "some rows in closed segments")
    first.send_signal(how)
    _, messages = first.communicate(timeout=PATIENCE_S)
    before = {row["target"]: row["sent_at"] for row in rows_of(folder)}
    assert len(before) < COUNT
    if how == signal.SIGKILL:
        assert first.returncode == -how and not summary.exists()
    else:
        assert first.returncode == 130, messages
        counts = json.loads(summary.read_text())
        assert counts["interrupted"] and counts["not_done"] == COUNT - len(before)
        assert not list(folder.glob("*.part"))
    finish([*common, *REST, "--resume"])
    rows = rows_of(folder)
    assert sorted(row["target"] for row in rows) == list(range(2, COUNT + 2))
    assert {row["outcome"] for row in rows} == {"answered"}
    assert before.items() <= {row["target"]: row["sent_at"] for row in rows}.items(), (
        "a target was probed again"
    )
    assert json.loads(summary.read_text())["resumed"] == len(before)


def test_a_run_keeps_its_block_list_and_the_next_one_reads_it_again(tmp_path: Path, port: int) -> None:
    path = write_targets(tmp_path / "t.csv", names(port))
    folder, block = tmp_path / "segments", tmp_path / "block"
    block.write_text("192.0.2.1\n")
    common = engine("--targets", path, "--segments", folder, "--blocklist", block, *LOOPBACK, *FAST)
    first = start([*common, *SLOW])
    until(lambda: len(rows_of(folder)) >= 10, "some rows in closed segments")
    block.write_text("127.7.0.0/16\n")
    known = len(rows_of(folder))
    until(lambda: len(rows_of(folder)) > known, "rows from after the change")
    first.send_signal(signal.SIGINT)
    first.communicate(timeout=PATIENCE_S)
    before = rows_of(folder)
    assert {row["outcome"] for row in before} == {"answered"}
    finish([*common, *REST, "--resume"])
    rows = rows_of(folder)
    outcomes = [row["outcome"] for row in rows]
    assert sorted(row["target"] for row in rows) == list(range(2, COUNT + 2))
    assert outcomes.count("answered") == len(before) and outcomes.count("blocked") == COUNT - len(before)


def test_a_list_is_read_from_standard_input(tmp_path: Path, port: int) -> None:
    text = write_targets(tmp_path / "t.csv", names(port, 3)).read_text()
    command = engine("--targets", "-", *LOOPBACK, *FAST)
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, done.stderr
    assert sorted(row["domain"] for row in rows) == ["n0.test", "n1.test", "n2.test"]


@pytest.mark.parametrize(
    ("last", "status", "blocked"),
    [("free 2\nend\n", 0, False), ("refuse 2\nend\n", 0, True), ("end\n", 0, True), ("", 130, False)],
)
def test_a_paused_group_waits(tmp_path: Path, port: int, last: str, status: int, blocked: bool) -> None:
    lines = [f"127.7.{n % 2}.1,n{n}.test,{port},{n % 2 + 1}" for n in range(60)]
    (tmp_path / "t.csv").write_text("\n".join(["ip,domain,port,group", *lines]) + "\n")
    folder = tmp_path / "segments"
    options = ("--targets", tmp_path / "t.csv", "--segments", folder, "--feed", "--rate", 20)
    fed = started(engine(*options, *LOOPBACK, *FAST), "hold 2")

    def of_group(number: int) -> list[str]:
        return [row["detail"] for row in rows_of(folder) if row["ip"] == f"127.7.{number - 1}.1"]

    until(lambda: len(of_group(1)) == 30, "all targets of group 1")
    sent_before = len(of_group(2))
    assert sent_before < 20 and fed.poll() is None, "the engine must wait for targets of group 2"
    _, messages = fed.communicate(last, timeout=PATIENCE_S)
    assert fed.returncode == status, messages
    assert len(of_group(2)) == (sent_before if status else 30)
    assert of_group(2).count(REFUSED_DETAIL) == (30 - sent_before if blocked else 0)


def test_a_broken_command_is_3(tmp_path: Path, port: int) -> None:
    path = write_targets(tmp_path / "t.csv", names(port))
    fed = started(engine("--targets", path, "--feed", *LOOPBACK, *FAST, *SLOW), "hold 5", "connect")
    _, messages = fed.communicate(timeout=PATIENCE_S)
    assert fed.returncode == 3 and "line 2 of the feed" in messages and "panicked" not in messages


def test_turns_keep_two_engines_apart(tmp_path: Path, port: int) -> None:
    """Two engines share 20 connections a second to a prefix. Together they keep the limit, and take turns."""
    path = write_targets(tmp_path / "t.csv", [("127.7.0.1", f"n{n}.test", port) for n in range(EACH)])
    limits = ("--rate", 500, "--per-address-rate", 0, "--per-prefix-rate", 20)
    running = []
    for index in range(2):
        folder = tmp_path / str(index)
        options = ("--targets", path, "--segments", folder, "--turn", f"{index}/2:0.8:0.3")
        running.append((folder, start(engine(*options, *limits, *LOOPBACK))))
    sent: list[tuple[int, int]] = []
    for index, (folder, process) in enumerate(running):
        _, messages = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, messages
        sent += [(row["sent_at"], index) for row in rows_of(folder)]
    check_turns(sent, EACH)
