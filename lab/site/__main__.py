"""`make airflow`: runs a site in the lab, until Ctrl-C.

python -m lab.site [--folder DIR] [--port N] [--paused] [--vantage NAME]...
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import requests

from firstflight.errors import FirstflightError, UsageError
from lab import launch
from lab.declared import internet
from lab.site import plan
from lab.site.announce import announce
from lab.site.plan import API_PORT, Level, SiteFolder, SiteProgram
from lab.site.processes import kill, left_over
from lab.site.run import Programs, enter, run_to_end
from lab.state import StateFolder, locate


class SignalReceived(Exception):
    """SIGINT or SIGTERM was received."""


def print_line(text: str) -> None:
    """Print a message on standard error."""
    print(f"site: {text}", file=sys.stderr, flush=True)


def start_site(programs: Programs, port: int) -> None:
    """Prepare and start all programs; the web page listens on `port` of the machine's loopback."""
    site = programs.site
    plan.prepare(site)
    pools = declared_pools(site)
    # Started first, because its port may be in use.
    forward = [sys.executable, "-P", "-m", "lab.forward", "--state", str(site.lab.folder)]
    forward += ["--host", "centre", "--to", f"127.0.0.1:{API_PORT}", "--port", str(port)]
    programs.start(SiteProgram("page", "", tuple(forward), {}, ready=r"READY \d+"))
    programs.wait_ready(["page"])
    all_parts = plan.parts(site)
    for level in Level:
        if level is Level.CENTRE:
            print_line("preparing Airflow's database")
            airflow = [*enter(site.lab.folder, "centre"), sys.executable, "-P", "-m", "airflow"]
            log = site.logs / "prepare.log"
            run_to_end([*airflow, "db", "migrate"], plan.centre_environment(site), log, "airflow db migrate")
        if level is Level.WORK:
            set_pools(programs.page, site.secrets.admin_password(), pools)
        print_line(f"starting {level.description}")
        parts = [part for part in all_parts if part.level is level]
        for part in parts:
            programs.start(part)
        programs.wait_ready([part.name for part in parts])


def declared_pools(site: SiteFolder) -> list[dict[str, Any]]:
    """Return the pools of the vantage points in the format of Airflow's REST interface."""
    # A separate process, because the lab must not import the code that it helps to test.
    listed = subprocess.run(
        [sys.executable, "-P", "-m", "orchestration.airflow.pools"],
        env={**os.environ, **plan.centre_environment(site)},
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode != 0:
        raise FirstflightError(listed.stderr.strip())
    return [{"name": name, **pool} for name, pool in json.loads(listed.stdout).items()]


def set_pools(page: str, password: str, pools: list[dict[str, Any]]) -> None:
    """Create or update the pools; FirstflightError if Airflow refuses.

    Uses the REST interface, because `airflow pools import` takes seconds to import Airflow.
    """
    actions = [{"action": "create", "entities": pools, "action_on_existence": "overwrite"}]
    try:
        login = {"username": "admin", "password": password}
        token = requests.post(f"{page}/auth/token", json=login, timeout=60)
        token.raise_for_status()
        bearer = {"Authorization": f"Bearer {token.json()['access_token']}"}
        answer = requests.patch(f"{page}/api/v2/pools", json={"actions": actions}, headers=bearer, timeout=60)
        answer.raise_for_status()
        errors = answer.json()["create"]["errors"]
    except requests.RequestException as error:
        raise FirstflightError(f"Airflow refused the pools: {error}") from error
    if errors:
        raise FirstflightError(f"Airflow refused the pools: {errors[0]['error']}")


def main() -> int:
    """Start the lab and the site, run until a signal, and stop everything."""
    parser = argparse.ArgumentParser(prog="python -m lab.site", description="A site in the lab.")
    parser.add_argument("--folder", type=Path, default=Path("var/site"), metavar="DIR")
    parser.add_argument("--port", type=int, default=8080, help="port of the page on 127.0.0.1; 0: a free one")
    parser.add_argument("--paused", action="store_true", help="create all DAGs paused")
    parser.add_argument(
        "--heartbeat", type=int, default=10, metavar="SECONDS", help="interval of the Edge workers"
    )
    parser.add_argument(
        "--silence",
        type=int,
        default=60,
        metavar="SECONDS",
        help="time without heartbeat after which a task counts as dead",
    )
    parser.add_argument(
        "--vantage",
        action="append",
        metavar="NAME",
        help="a vantage point of the site (repeatable; default: all)",
    )
    options = parser.parse_args()
    folder = options.folder.absolute()
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, _raise_stopped)
    state = locate(None)
    try:
        with _locked(folder), _running_lab(state, folder):
            net = internet.load(state.behaviour_file)
            site = SiteFolder(
                folder=folder,
                lab=state,
                centre_v4=next(host.v4 for host in net.hosts if host.kind == "centre"),
                vantages=chosen([host.name for host in net.hosts if host.kind == "vantage"], options.vantage),
                heartbeat_s=options.heartbeat,
                silence_s=options.silence,
                paused=options.paused,
            )
            with Programs(site) as programs:
                start_site(programs, options.port)
                announce(site, programs)
                while True:
                    time.sleep(1)
                    programs.restart_ended(print_line)
    except SignalReceived:
        print_line("ended")
        return 0
    except FirstflightError as error:
        print(f"site: {error}", file=sys.stderr)
        return error.exit_status


def chosen(existing: Sequence[str], names: Sequence[str] | None) -> tuple[str, ...]:
    """Return the vantage points of the site: `names`, or all; UsageError if the lab lacks one."""
    unknown = [name for name in names or () if name not in existing]
    if unknown:
        raise UsageError(f"--vantage {unknown[0]}: the lab has {', '.join(existing)}")
    return tuple(name for name in existing if names is None or name in names)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock the folder, and kill the remaining processes of a killed site there."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(f"a site is already running in {folder}: stop it by Ctrl-C first") from error
        (folder / "site.json").unlink(missing_ok=True)
        if leftovers := left_over(folder):
            print_line(f"killing {len(leftovers)} processes of a site that was killed here")
        kill(leftovers)
        # PostgreSQL treats a zombie process as running.
        deadline = time.monotonic() + 10
        while any(Path(f"/proc/{pid}").exists() for pid in leftovers) and time.monotonic() < deadline:
            time.sleep(0.1)
        yield


@contextmanager
def _running_lab(state: StateFolder, folder: Path) -> Iterator[None]:
    """Start the lab unless it is up; on exit, stop it if this site (or a killed one here) started it."""
    marker = folder / "raised.json"
    record = state.running()
    if record is None:
        launch.up(state, internet.DEFAULT, capture_edges=False, realtime=True, progress=print_line)
        marker.write_text(json.dumps(state.require().__dict__), encoding="utf-8")
    else:
        print_line("using the lab that is up")
    try:
        yield
    finally:
        # From here on a second Ctrl-C must not interrupt the cleanup.
        for signum in (signal.SIGINT, signal.SIGTERM):
            signal.signal(signum, signal.SIG_IGN)
        record = state.running()
        if record is not None and marker.is_file() and marker.read_text() == json.dumps(record.__dict__):
            launch.down(state)
            marker.unlink()


def _raise_stopped(_signal: int, _frame: FrameType | None) -> None:
    raise SignalReceived


if __name__ == "__main__":
    sys.exit(main())
