"""Runs a block in real time: with the host's clock and the lab's link, in namespaces without external access.

It runs the same code as a guest: testbed/trials/inside.py with the same job, programs, certificates and
configurations. Random numbers come from the machine, and computation takes time. The lab's link adds the
delay (testbed/trials/network/wire.py).
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from firstflight.errors import FirstflightError, UsageError
from firstflight.system import binaries, children, files
from lab import launch
from lab.system import link_log
from lab.system.programs import program
from testbed.guest import guest
from testbed.trials import block as blocks
from testbed.trials import inside, programs
from testbed.trials.block import TrialBlock
from testbed.trials.network import wire
from testbed.trials.network.path import longest_wait_s
from testbed.trials.trial_row import TrialRow

_START_S = 180.0
"""Seconds until the first trial starts: three programs start first."""
# `ip netns` keeps its namespaces in /run.
_PREPARED = 'mount -t tmpfs firstflight /run && ip link set lo up && exec "$@"'


@dataclass(frozen=True)
class Real:
    """A block's rows, and how many ns late the lab's link released each packet."""

    rows: list[TrialRow]
    late_ns: list[int]


def check(block: TrialBlock) -> None:
    """Raise UsageError if a block cannot run in real time here."""
    if (why := block.unavailable() or wire.why_not(block.cell)) is not None:
        raise UsageError(f"the cell {block.cell.name} cannot be done in real time: {why}; choose another")
    for name, package in (("unshare", "util-linux"), ("ip", "iproute2"), ("nft", "nftables")):
        program(name, package)


def run(block: TrialBlock, folder: Path) -> Real:
    """Run a block's trials in real time in `folder`, which must be empty and keeps their files.

    UsageError if namespaces cannot be created here. Other failures become the trials' outcome.
    """
    check(block)
    trials = folder / "trials"
    job = {**blocks.job(block), "folder": str(trials), "link": str(binaries.find("firstflight-link"))}
    files.write_json(folder / "job.json", job)
    stderr = in_namespaces([sys.executable, "-P", "-m", "testbed.trials.inside"], folder, _limit_s(block))
    (folder / "guest.log").write_bytes(stderr)
    shutil.rmtree(trials, ignore_errors=True)
    log = folder / "lateness.csv"
    late_ns = [int(row["late_ns"]) for row in link_log.rows(log) if row["late_ns"]] if log.is_file() else []
    kernel = f"{os.uname().release}, in real time"
    return Real(blocks.artifact_rows(block, folder, stderr, kernel=kernel), late_ns)


def _limit_s(block: TrialBlock) -> float:
    """Return the time limit for a block in seconds: each trial may last until its end is forced."""
    each_s = blocks.timeout_s(block.cell) + programs.GRACE_S + inside.PAUSE_S + longest_wait_s(block.cell)
    return _START_S + (block.trials + inside.REAL_UNCOUNTED) * each_s


def in_namespaces(argv: list[str], folder: Path, limit_s: float) -> bytes:
    """Run a command in new namespaces, in `folder`; return the standard error. No process outlives it.

    UsageError if namespaces cannot be created here; FirstflightError after `limit_s` seconds.
    """
    environment = {name: value for name, value in guest.ENVIRONMENT.items() if name != "LD_PRELOAD"}
    with subprocess.Popen(
        [*launch.unshare(), "--mount-proc", "sh", "-c", _PREPARED, "sh", *argv],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        cwd=folder,
        env={**environment, "PYTHONPATH": str(binaries.repository())},
        preexec_fn=lambda: children.die_with_parent(signal.SIGKILL),
    ) as process:
        try:
            stderr = process.communicate(timeout=limit_s)[1]
        except subprocess.TimeoutExpired as error:
            raise FirstflightError(
                f"the trials in {folder} did not end within {limit_s:.0f} s: see the logs of its programs"
            ) from error
        finally:
            # --kill-child: all processes in its namespaces are killed, too.
            process.kill()
    if stderr.startswith((b"unshare:", b"mount:")):
        wanted = "give root CAP_SYS_ADMIN" if os.geteuid() == 0 else "allow user namespaces"
        reason = stderr.decode(errors="replace").strip().splitlines()[0]
        raise UsageError(f"namespaces cannot be made here ({reason}): {wanted}")
    return stderr
