"""Runs a program with a terminal as standard output."""

from __future__ import annotations

import os
import pty
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path


def run(argv: Sequence[str], cwd: Path, environment: Mapping[str, str] | None = None) -> tuple[int, str, str]:
    """Run a program; return exit status, standard output as shown on the terminal, and standard error."""
    ours, theirs = pty.openpty()
    shown = b""
    with tempfile.TemporaryFile("w+") as messages:
        process = subprocess.Popen(argv, stdout=theirs, stderr=messages, cwd=cwd, env=environment)
        os.close(theirs)
        with suppress(OSError):  # EIO: the last writer has closed it
            while read := os.read(ours, 65536):
                shown += read
        os.close(ours)
        status = process.wait(120)
        messages.seek(0)
        return status, shown.decode().replace("\r\n", "\n"), messages.read()
