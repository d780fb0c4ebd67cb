"""The prober sleeps when idle. Its number of system calls does not depend on the machine's speed."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from tests.engines.waits import WAITS, counts, strace, system_calls
from tests.waiting import until

from .conftest import FAST, LOOPBACK, argv, write_targets

# System calls that open ports, read the list, and exit.
START = 400


# A pass of the loop has two waits: a sleep, and a poll for readable ports. A single probe has a pass for each
# event: sending, two answers, settling, closing. From 50 probes per second, probes share passes: five at 50,
# eight at 200, seven at 500, four at 1,000 per second. Such a pass sends twice (new probes, closes), and
# reads timestamps and answers from the readable ports.
@pytest.mark.parametrize(
    ("rate", "count", "waits_each", "calls_each"),
    [
        (1, 3, 12, 60),
        (50, 100, 0.6, 3),
        (200, 600, 0.5, 1.5),
        (500, 1500, 0.5, 1.7),
        (1000, 3000, 1, 2.5),
        (10_000, 20_000, 0.3, 1.2),
    ],
)
def test_probes_share_system_calls(
    responder: int, tmp_path: Path, rate: int, count: int, waits_each: float, calls_each: float
) -> None:
    targets = write_targets(
        tmp_path / "t.csv",
        [(f"127.3.{n // 200}.{n % 200 + 1}", f"n{n}.test", responder) for n in range(count)],
    )
    options = ["--targets", targets, *LOOPBACK, *FAST, "--rate", rate, "--linger-ms", 200]
    done, calls = system_calls(argv(*options), tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count('"outcome":"iack"') == count
    waits = sum(calls[name] for name in WAITS)
    # During the cooldown, and without probes in flight, the prober only checks for signals and deadlines.
    seconds = count / rate + 3
    assert 0 < waits <= waits_each * count + 20 * seconds, calls
    # About twice a second, records go to the writer thread.
    assert calls.total() <= START + calls_each * count + 60 * seconds, calls


def test_an_idle_prober_only_checks_for_signals(tmp_path: Path) -> None:
    command = argv("--feed", "--segments", tmp_path / "segments", *LOOPBACK)
    calls = tmp_path / "calls"
    started_s = time.monotonic()
    process = subprocess.Popen([*strace(calls), *command], stdin=subprocess.PIPE, text=True)
    assert process.stdin is not None
    until(lambda: time.monotonic() - started_s >= 3, "three seconds")
    process.stdin.write("end\n")
    process.stdin.close()
    assert process.wait(60) == 0
    passed = time.monotonic() - started_s
    made = counts(calls)
    # Ten times a second, the prober polls, and sleeps until a datagram arrives.
    assert 0 < sum(made[name] for name in WAITS) <= 22 * passed + 10, made
    # Ports of both families.
    assert made.total() <= 2 * START + 22 * passed, made
