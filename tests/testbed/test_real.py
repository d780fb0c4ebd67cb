"""Trials in real time over the lab's link, in namespaces that leave nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from firstflight.errors import FirstflightError, UsageError
from firstflight.system import binaries
from lab import launch
from testbed import real
from testbed.block import Block
from testbed.cell import Cell
from tests.waiting import until

# Seconds that no other program of the machine sleeps.
SLEEPS = f"98765.{os.getpid()}"
CELL = Cell(client="quiche", server="quiche", answering="wfc", rtt_ms=40, drop_to_client=(2,))


def running(word: str) -> bool:
    """Return whether a process has this word in its command line."""
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if word.encode() in file.read_bytes().split(b"\0"):
                return True
        except OSError:
            continue
    return False


def test_a_trial_in_real_time_has_the_path_s_delay_and_drops(tmp_path: Path) -> None:
    found = real.run(Block("x", CELL, 1, 1), tmp_path)
    (row,) = found.rows
    assert (row["outcome"], row["detail"], row["dropped"]) == ("done", None, 1)
    # A busy machine makes it later, none earlier; the clock of the capture counts whole microseconds.
    assert row["rtt_min_us"] >= 39_999
    assert row["first_stream_us"] > 79_998
    assert (row["seed"], row["kernel"]) == (None, f"{os.uname().release}, in real time")
    assert len(found.late_ns) >= row["datagrams_client"] + row["datagrams_server"]
    assert {"path.pcap", "path.keys", "lateness.csv"} <= {file.name for file in tmp_path.iterdir()}
    assert not (tmp_path / "trials").exists()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"qdisc": "fq"}, r"^the cell quiche-.* cannot be done in real time: with the qdisc fq .*; choose"),
        ({"server": "tquic"}, r"^the cell quiche-tquic-.* cannot be done in real time: tquic has no server "),
    ],
)
def test_a_cell_that_has_none_is_one_sentence(tmp_path: Path, more: dict[str, str], message: str) -> None:
    cell = Cell.model_validate({**CELL.model_dump(), **more})
    with pytest.raises(UsageError, match=message):
        real.run(Block("x", cell, 1, 1), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_the_runner_says_is_the_outcome(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reason = "tc qdisc add: Error: Specified qdisc kind is unknown."
    monkeypatch.setattr(real, "_in_namespaces", lambda *_: f"{reason}\n".encode())
    found = real.run(Block("x", CELL, 1, 2), tmp_path)
    assert [(row["outcome"], row["detail"]) for row in found.rows] == [("guest_failed", reason)] * 2
    assert found.late_ns == []


def test_namespaces_that_cannot_be_made_are_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in = tmp_path / "unshare"
    stand_in.write_text("#!/bin/sh\necho unshare: unshare failed: Operation not permitted >&2\nexit 1\n")
    stand_in.chmod(0o755)
    monkeypatch.setattr(launch, "unshare", lambda: [str(stand_in)])
    with pytest.raises(UsageError, match=r"^namespaces cannot be made here \(unshare: .* not permitted\): "):
        real._in_namespaces(["true"], tmp_path, 10)


def test_the_namespaces_have_no_way_out_and_a_run_of_their_own(tmp_path: Path) -> None:
    # mount(8) makes the one folder in it.
    shown = tmp_path / "shown.py"
    shown.write_text(
        "import os, sys\nsys.exit(' '.join(os.listdir('/sys/class/net') + os.listdir('/run')))\n"
    )
    script = f"mount -t sysfs own /sys && exec {sys.executable} {shown}"
    assert real._in_namespaces(["sh", "-c", script], tmp_path, 60) == b"lo mount\n"


def test_nothing_outlives_its_time(tmp_path: Path) -> None:
    with pytest.raises(FirstflightError, match=r"^the trials in .* did not end within 1 s: see the logs"):
        real._in_namespaces(["sleep", SLEEPS], tmp_path, 1)
    until(lambda: not running(SLEEPS), "the end of what ran")


def test_nothing_outlives_a_killed_run(tmp_path: Path) -> None:
    program = "import sys; from pathlib import Path; from testbed import real; "
    program += "real._in_namespaces(['sleep', sys.argv[2]], Path(sys.argv[1]), 600)"
    argv = [sys.executable, "-P", "-c", program, str(tmp_path), SLEEPS]
    with subprocess.Popen(argv, env={**os.environ, "PYTHONPATH": str(binaries.repository())}) as one:
        until(lambda: running(SLEEPS), "the start of what runs")
        one.send_signal(signal.SIGKILL)
    until(lambda: not running(SLEEPS), "the end of what ran")
