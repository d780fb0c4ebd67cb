"""Between two things to do the prober sleeps: its waits are counted, whatever the machine's speed."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from .conftest import FAST, LOOPBACK, argv, write_targets

WAITS = ("epoll_wait", "epoll_pwait", "epoll_pwait2", "poll", "ppoll")


@pytest.mark.parametrize(("rate", "count"), [(1, 3), (50, 100), (500, 1500), (1000, 3000)])
def test_waits_follow_the_probes_and_not_the_clock(
    responder: int, tmp_path: Path, rate: int, count: int
) -> None:
    strace = shutil.which("strace")
    assert strace, "the tests need strace: apt-get install strace"
    targets = write_targets(
        tmp_path / "t.csv",
        [(f"127.3.{n // 200}.{n % 200 + 1}", f"n{n}.test", responder) for n in range(count)],
    )
    calls = tmp_path / "calls"
    done = subprocess.run(
        [
            strace,
            "-f",
            "-c",
            "-U",
            "calls,name",
            "-e",
            f"trace={','.join(WAITS)}",
            "-o",
            str(calls),
            *argv("--targets", targets, *LOOPBACK, *FAST, "--rate", rate, "--linger-ms", 50),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count('"outcome":"iack"') == count
    waits = sum(
        int(n) for n, name in re.findall(r"^ *(\d+) +(\S+)$", calls.read_text(), re.M) if name in WAITS
    )
    # A probe has a few events: it leaves, is answered twice, settles, is closed. Ten times a second the
    # prober looks for signals.
    assert 0 < waits <= 8 * count + 10 * (count / rate + 3), waits
