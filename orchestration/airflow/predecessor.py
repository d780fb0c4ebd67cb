"""Waits until the centre treats a killed Edge worker as dead.

The centre refuses a worker if another worker with the same name is active. A worker that stops gracefully
signs off and removes the PID file. After kill -9 or a power cut the file remains, and the centre waits for
five missed heartbeats.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from firstflight.errors import UsageError

MISSED = 5  # heartbeats after which the centre counts a worker as dead (Airflow's Edge provider)
CHECK_S = 5.0  # the centre's scheduler looks about this often
DEFAULT_INTERVAL_S = 30.0  # [edge] heartbeat_interval
_TITLE = b"airflow edge worker"


def wait(home: Path, report: Callable[[str], None], sleep: Callable[[float], None] = time.sleep) -> None:
    """Return when the centre accepts a worker again, after a worker with AIRFLOW_HOME `home` was killed.

    Reports once that it waits and how long. Removes the PID file afterwards, because Airflow's worker would
    not start if another program has that number now. UsageError if the worker is running.
    """
    file = home / "airflow-edge-worker.pid"
    try:
        pid = int(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return
    if _TITLE in _command(pid):
        raise UsageError(f"a worker with this AIRFLOW_HOME is running (process {pid}): stop it first")
    left_s = MISSED * _interval_s() + CHECK_S
    if file.stat().st_mtime < time.time() - _uptime_s():  # it ended before this machine started
        left_s -= _uptime_s()
    if left_s > 0:
        report(
            f"the worker before this one was killed, and the centre accepts a new one after {MISSED} missed "
            f"heartbeats: starting in {left_s:.0f} s"
        )
        sleep(left_s)
    file.unlink(missing_ok=True)


def _interval_s() -> float:
    try:
        return float(os.environ.get("AIRFLOW__EDGE__HEARTBEAT_INTERVAL", DEFAULT_INTERVAL_S))
    except ValueError:
        return DEFAULT_INTERVAL_S


def _uptime_s() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _command(pid: int) -> bytes:
    """Return a process's command line, with spaces; empty if the process does not exist."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
    except OSError:
        return b""
