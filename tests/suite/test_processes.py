"""Functions that stop and continue processes of tests."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from tests.processes import go_on_when_interrupted, halt, pending

SLEEPS = "import time; print(1, flush=True)\nwhile True: time.sleep(0.001)"


def test_a_signal_after_a_halt_waits() -> None:
    """`halt` waits for the stop. Otherwise, a process on a busy machine could handle SIGINT first."""
    for _ in range(10):
        argv = [sys.executable, "-c", SLEEPS]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            assert process.stdout is not None
            process.stdout.readline()
            halt(process.pid)
            process.send_signal(signal.SIGINT)
            assert pending(process.pid) == 1 << signal.SIGINT - 1
            go_on_when_interrupted([process.pid])
        assert process.returncode == -signal.SIGINT


def test_an_ended_process_cannot_be_halted() -> None:
    with subprocess.Popen(["true"]) as process:
        process.wait()
        with pytest.raises(ProcessLookupError):
            halt(process.pid)
    # A zombie: the process has exited, but was not waited for.
    process = subprocess.Popen(["true"], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.read()
    with pytest.raises(ProcessLookupError):
        while True:
            halt(process.pid)
    process.wait()
    process.stdout.close()
