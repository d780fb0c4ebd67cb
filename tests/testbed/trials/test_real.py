"""Cells that cannot run in real time, and the cleanup of namespaces."""

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
from testbed.experiment.cell import Cell
from testbed.trials import real_time
from testbed.trials.block import TrialBlock
from tests.waiting import until

# Seconds that no other program of the machine sleeps.
SLEEPS = f"98765.{os.getpid()}"
CELL = Cell(client="quiche", server="quiche", answering="wfc", rtt_ms=40, drop_to_client=(2,))


def sleeping() -> bool:
    """Return whether the command runs. Its launchers' command lines are longer, so they do not match."""
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if file.read_bytes() == f"sleep\0{SLEEPS}\0".encode():
                return True
        except OSError:
            continue
    return False


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
        real_time.run(TrialBlock("x", cell, 1, 1), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_outcome_is_that_of_the_runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reason = "tc qdisc add: Error: Specified qdisc kind is unknown."
    monkeypatch.setattr(real_time, "in_namespaces", lambda *_: f"{reason}\n".encode())
    found = real_time.run(TrialBlock("x", CELL, 1, 2), tmp_path)
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
        real_time.in_namespaces(["true"], tmp_path, 10)


def test_the_namespaces_are_isolated_and_have_a_separate_run(tmp_path: Path) -> None:
    shown = tmp_path / "shown.py"
    shown.write_text(
        "import os, sys\nsys.exit(' '.join([*os.listdir('/sys/class/net'), '/run', *os.listdir('/run')]))\n"
    )
    script = f"mount -t sysfs own /sys && exec {sys.executable} {shown}"
    # mount(8) may make a folder in it.
    assert real_time.in_namespaces(["sh", "-c", script], tmp_path, 60) in (b"lo /run\n", b"lo /run mount\n")


def test_nothing_outlives_its_time(tmp_path: Path) -> None:
    with pytest.raises(FirstflightError, match=r"^the trials in .* did not end within 1 s: see the logs"):
        real_time.in_namespaces(["sleep", SLEEPS], tmp_path, 1)
    until(lambda: not sleeping(), "the end of what ran")


def test_nothing_outlives_a_killed_run(tmp_path: Path) -> None:
    program = "import sys; from pathlib import Path; from testbed.trials import real_time as real; "
    program += "real.in_namespaces(['sleep', sys.argv[2]], Path(sys.argv[1]), 600)"
    argv = [sys.executable, "-P", "-c", program, str(tmp_path), SLEEPS]
    with subprocess.Popen(argv, env={**os.environ, "PYTHONPATH": str(binaries.repository())}) as process:
        until(sleeping, "the start of what runs")
        process.send_signal(signal.SIGKILL)
    until(lambda: not sleeping(), "the end of what ran")
