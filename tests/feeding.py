"""Programs with a feed whose first commands are there before they start."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence


def started(command: Sequence[str], *lines: str) -> subprocess.Popen[str]:
    """Start a program whose standard input already holds `lines`, and return it; its messages can be read.

    So what it does with these commands does not depend on when this process goes on.
    """
    read, write = os.pipe()
    os.write(write, "".join(f"{line}\n" for line in lines).encode())
    process = subprocess.Popen(command, stdin=read, stderr=subprocess.PIPE, text=True)
    os.close(read)
    process.stdin = os.fdopen(write, "w")
    return process
