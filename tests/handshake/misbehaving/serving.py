"""Runs a server of this folder, and the engine with the memory that it took at most."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from lab.hosts.certificates import issue, make_authority
from tests.free_port import free_port
from tests.handshake.conftest import CONTACT, LOOPBACK, TREE, EngineOutput, Target, argv, write_targets

# A rate that a server in Python can handle.
SLOW = ("--per-address-rate", "0", "--per-prefix-rate", "0", "--rate", "60")


@contextmanager
def serving(module: str, folder: Path, names: str) -> Iterator[int]:
    """Run a module of this folder with PORT, CHAIN and KEY, and a certificate for `names`; yield PORT."""
    files = issue(make_authority(folder), module, [names])
    port = free_port()
    command = [sys.executable, "-P", "-m", f"{__package__}.{module}", port, files.chain, files.key]
    environment = {**os.environ, "PYTHONPATH": str(TREE)}
    with (folder / f"{module}.log").open("w") as log:
        process = subprocess.Popen(
            [*map(str, command)], stdout=subprocess.PIPE, stderr=log, text=True, env=environment
        )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "READY\n", (folder / f"{module}.log").read_text()
        yield port
        assert process.poll() is None, "the server ended"
    finally:
        process.kill()
        process.wait()


def connect_measured(folder: Path, targets: Sequence[Target], *options: object) -> tuple[EngineOutput, int]:
    """Run the engine over targets on loopback; return the output and peak resident memory in bytes."""
    folder.mkdir(exist_ok=True)
    path = write_targets(folder / "targets.csv", targets)
    command = argv("--targets", path, "--contact", CONTACT, *LOOPBACK, *SLOW, *options)
    with (folder / "out").open("w") as out, (folder / "err").open("w") as err:
        process = subprocess.Popen(command, stdout=out, stderr=err)
    peak = 0
    while process.poll() is None:
        peak = max(peak, _high_water(process.pid))
        time.sleep(0.01)
    text = (folder / "out").read_text()
    # Split at line feeds only: JSON escapes the other line terminators.
    rows = [json.loads(line) for line in text.split("\n") if line]
    done = EngineOutput(process.returncode, rows, (folder / "err").read_text(), folder)
    return done, peak


def _high_water(pid: int) -> int:
    """Return the peak resident memory of a process in bytes, or 0 if the process has exited.

    The kernel's count for a waited-for child is no substitute: it includes the memory of the forking process.
    """
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0
