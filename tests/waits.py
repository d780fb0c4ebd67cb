"""Counts how often a program waits, which does not depend on the machine's speed."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

WAITS = ("epoll_wait", "epoll_pwait", "epoll_pwait2", "poll", "ppoll", "clock_nanosleep", "nanosleep")


def counted(argv: Sequence[str], folder: Path) -> tuple[subprocess.CompletedProcess[str], int]:
    """Run a program; return what it did, and how many system calls that wait all its threads made."""
    strace = shutil.which("strace")
    assert strace, "the tests need strace: apt-get install strace"
    calls = folder / "calls"
    options = ["-f", "-c", "-U", "calls,name", "-e", f"trace={','.join(WAITS)}", "-o", str(calls)]
    done = subprocess.run([strace, *options, *argv], capture_output=True, text=True, check=False)
    found = re.findall(r"^ *(\d+) +(\S+)$", calls.read_text(), re.M)
    return done, sum(int(count) for count, name in found if name in WAITS)
