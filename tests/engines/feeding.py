"""Starts programs with a feed that already contains the first commands."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence


def started(command: Sequence[str], *lines: str) -> subprocess.Popen[str]:
    """Start a program with `lines` in its standard input, and return it. Its stderr is a pipe.

    The program's behaviour for these commands therefore does not depend on the speed of this process.
    """
    read, write = os.pipe()
    os.write(write, "".join(f"{line}\n" for line in lines).encode())
    process = subprocess.Popen(command, stdin=read, stderr=subprocess.PIPE, text=True)
    os.close(read)
    process.stdin = os.fdopen(write, "w")
    return process
