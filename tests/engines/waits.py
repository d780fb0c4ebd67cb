"""Counts how often a program waits. The count does not depend on the machine's speed."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

WAITS = ("epoll_wait", "epoll_pwait", "epoll_pwait2", "poll", "ppoll", "clock_nanosleep", "nanosleep")


def system_calls(
    argv: Sequence[str], folder: Path, only: Sequence[str] = ()
) -> tuple[subprocess.CompletedProcess[str], Counter[str]]:
    """Run a program; return the result, and the counts of system calls of all threads.

    With `only`, counts only these system calls.
    """
    calls = folder / "calls"
    traced = ["-e", f"trace={','.join(only)}"] if only else []
    done = subprocess.run([*strace(calls), *traced, *argv], capture_output=True, text=True, check=False)
    return done, counts(calls)


def strace(calls: Path) -> list[str]:
    """Return a command prefix that runs a program and writes its system calls to a file, for `counts`."""
    program = shutil.which("strace")
    assert program, "the tests need strace: apt-get install strace"
    return [program, "-f", "-c", "-U", "calls,name", "-o", str(calls)]


def counts(calls: Path) -> Counter[str]:
    """Return the counts of system calls that `strace` wrote."""
    found = re.findall(r"^ *(\d+) +(\S+)$", calls.read_text(), re.M)
    return Counter({name: int(count) for count, name in found if name != "total"})


def counted(argv: Sequence[str], folder: Path) -> tuple[subprocess.CompletedProcess[str], int]:
    """Run a program; return the result, and the number of waiting system calls of all threads."""
    done, calls = system_calls(argv, folder, WAITS)
    return done, calls.total()
