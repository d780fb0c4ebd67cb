"""Starts a vantage point's Edge worker, after checking its name and clock.

    python -m orchestration.airflow.worker --vantage NAME

vantage_points.toml must declare NAME, and the clock must agree with the centre's: Airflow's tokens are valid
for seconds, and a worker with a wrong clock would only receive `403 Forbidden`. Run it under a supervisor
that restarts it (systemd: Restart=always): after kill -9 it waits until the centre accepts it again.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from firstflight.egress import lab
from firstflight.errors import FirstflightError, UsageError
from firstflight.system import terminal
from firstflight.system.network.clock import by_date
from orchestration.airflow import predecessor
from orchestration.site.centre_client import PATH
from orchestration.site.vantage_points import declared

# Concurrent tasks: the slots of the vantage point's pools (vantage_points.pools), and of each further shard.
SLOTS, SLOTS_OF_SHARD = 6, 2


def main() -> int:
    """Run the checks, then exec `airflow edge worker`. On an error, print it and return status 1 or 2."""
    parser = argparse.ArgumentParser(
        prog="python -m orchestration.airflow.worker", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--vantage", required=True, metavar="NAME")
    parser.add_argument("--concurrency", type=int, metavar="N")
    options = parser.parse_args()
    lab.enforce()
    try:
        vantage = declared().named(options.vantage)
        check_clock(centre_url())
        home = Path(os.environ.get("AIRFLOW_HOME") or "~/airflow").expanduser()
        predecessor.wait(home, lambda text: terminal.echo(f"worker {vantage.name}: {text}", err=True))
    except FirstflightError as error:
        terminal.echo(f"worker {options.vantage}: {error}", err=True)
        return error.exit_status
    argv = ["airflow", "edge", "worker", "--edge-hostname", vantage.name, "--queues", vantage.queue]
    slots = SLOTS + SLOTS_OF_SHARD * (vantage.shards - 1)
    argv += ["--concurrency", str(options.concurrency or slots)]
    os.execvp("airflow", argv)
    raise AssertionError("not reached")


def centre_url() -> str:
    """Return the centre's address from [edge] api_url; UsageError if it is not set."""
    url = os.environ.get("AIRFLOW__EDGE__API_URL", "")
    if "/edge_worker/" not in url:
        raise UsageError(
            "AIRFLOW__EDGE__API_URL is not set: set it to https://CENTRE/edge_worker/v1/rpcapi "
            "(docs/how-to/add-a-vantage-point.md)"
        )
    return url.partition("/edge_worker/")[0]


def check_clock(centre: str) -> None:
    """Raise FirstflightError if the local clock differs from the centre's, or the centre does not answer."""
    import requests

    before_ns = time.time_ns()
    try:
        # Answers 404 with a Date header; nothing else is read.
        with requests.get(f"{centre}{PATH}/", timeout=20, stream=True, allow_redirects=False) as answer:
            pass
    except requests.RequestException as error:
        raise FirstflightError(f"the centre does not answer at {centre}: {_reason(error)}") from error
    offset = by_date(answer.headers.get("Date"), before_ns, time.time_ns(), "the centre's")
    if offset is not None and offset.is_beyond():
        raise FirstflightError(
            f"this machine's clock is {offset}, so the centre would assign no task: set it (chronyc tracking)"
        )


def _reason(error: Exception) -> str:
    return str(error).split("(Caused by ")[-1].strip("() ")[:200]


if __name__ == "__main__":
    sys.exit(main())
