"""`make airflow`: a whole site over the lab, until Ctrl-C.

python -m lab.site [--folder DIR] [--port N] [--paused]
"""

from __future__ import annotations

import argparse
import fcntl
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import requests

from firstflight.errors import FirstflightError, UsageError
from lab import internet, launch
from lab.site import plan
from lab.site.plan import API_PORT, Level, Part, Site
from lab.site.processes import kill, left_over
from lab.site.run import Programs, enter, once
from lab.state import State, locate


class Stopped(Exception):
    """SIGINT or SIGTERM came."""


def print_line(text: str) -> None:
    """Tell people."""
    print(f"site: {text}", file=sys.stderr, flush=True)


def raise_site(programs: Programs, port: int) -> None:
    """Prepare and start everything; `port` of the machine's loopback is the page's."""
    site = programs.site
    plan.prepare(site)
    pools = declared_pools(site)
    # First, because its port may be taken.
    forward = [sys.executable, "-P", "-m", "lab.forward", "--state", str(site.lab.folder)]
    forward += ["--host", "centre", "--to", f"127.0.0.1:{API_PORT}", "--port", str(port)]
    programs.start(Part("page", "", tuple(forward), {}, ready=r"READY \d+"))
    programs.wait_ready(["page"])
    everything = plan.parts(site)
    for level in Level:
        if level is Level.CENTRE:
            print_line("preparing Airflow's database")
            airflow = [*enter(site.lab.folder, "centre"), sys.executable, "-P", "-m", "airflow"]
            log = site.logs / "prepare.log"
            once([*airflow, "db", "migrate"], plan.centre_environment(site), log, "airflow db migrate")
        if level is Level.WORK:
            set_pools(programs.page, site.secrets.admin_password(), pools)
        print_line(f"starting {level.description}")
        parts = [part for part in everything if part.level is level]
        for part in parts:
            programs.start(part)
        programs.wait_ready([part.name for part in parts])


def declared_pools(site: Site) -> list[dict[str, Any]]:
    """The pools that the vantage points need, as Airflow's REST interface takes them."""
    # A process of its own: the lab's code knows nothing of what it helps to test.
    listed = subprocess.run(
        [sys.executable, "-P", "-m", "orchestration.airflow.pools"],
        env=plan.centre_environment(site),
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode != 0:
        raise FirstflightError(listed.stderr.strip())
    return [{"name": name, **pool} for name, pool in json.loads(listed.stdout).items()]


def set_pools(page: str, password: str, pools: list[dict[str, Any]]) -> None:
    """Make the pools, or bring them up to date; FirstflightError if Airflow refuses.

    Not by `airflow pools import`, which costs seconds of importing Airflow once more.
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
        raise FirstflightError(f"Airflow does not take the pools: {error}") from error
    if errors:
        raise FirstflightError(f"Airflow does not take the pools: {errors[0]['error']}")


def main() -> int:
    """Raise the lab and the site, stay, and end everything."""
    parser = argparse.ArgumentParser(prog="python -m lab.site", description="A whole site over the lab.")
    parser.add_argument("--folder", type=Path, default=Path("var/site"), metavar="DIR")
    parser.add_argument("--port", type=int, default=8080, help="of the page on 127.0.0.1; 0: a free one")
    parser.add_argument("--paused", action="store_true", help="all DAGs begin paused")
    parser.add_argument("--heartbeat", type=int, default=10, metavar="SECONDS", help="of the Edge workers")
    parser.add_argument(
        "--silence", type=int, default=60, metavar="SECONDS", help="after which a task counts as dead"
    )
    options = parser.parse_args()
    folder = options.folder.absolute()
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, _raise_stopped)
    state = locate(None)
    try:
        with _alone(folder), _lab(state, folder):
            net = internet.load(state.behaviour_file)
            site = Site(
                folder=folder,
                lab=state,
                centre_v4=next(host.v4 for host in net.hosts if host.kind == "centre"),
                vantages=tuple(host.name for host in net.hosts if host.kind == "vantage"),
                heartbeat_s=options.heartbeat,
                silence_s=options.silence,
                paused=options.paused,
            )
            with Programs(site) as programs:
                raise_site(programs, options.port)
                _announce(site, programs)
                while True:
                    time.sleep(1)
                    programs.restart_ended(print_line)
    except Stopped:
        print_line("ended")
        return 0
    except FirstflightError as error:
        print(f"site: {error}", file=sys.stderr)
        return error.exit_status


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Have the folder for ourselves, without what a site that was killed has left running there."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(f"a site is up already in {folder}: end it by Ctrl-C first") from error
        (folder / "site.json").unlink(missing_ok=True)
        if left := left_over(folder):
            print_line(f"ending {len(left)} processes of a site that was killed here")
        kill(left)
        # A dead process that nobody has waited for yet still counts for PostgreSQL.
        deadline = time.monotonic() + 10
        while any(Path(f"/proc/{pid}").exists() for pid in left) and time.monotonic() < deadline:
            time.sleep(0.1)
        yield


@contextmanager
def _lab(state: State, folder: Path) -> Iterator[None]:
    """Have the lab up; the one that we raised, or that a site killed here had raised, is down afterwards."""
    ours = folder / "raised.json"
    record = state.running()
    if record is None:
        launch.up(state, internet.DEFAULT, capture_edges=False, realtime=True, progress=print_line)
        ours.write_text(json.dumps(state.require().__dict__), encoding="utf-8")
    else:
        print_line("using the lab that is up")
    try:
        yield
    finally:
        # From here on a second Ctrl-C must not leave anything behind.
        for signum in (signal.SIGINT, signal.SIGTERM):
            signal.signal(signum, signal.SIG_IGN)
        record = state.running()
        if record is not None and ours.is_file() and ours.read_text() == json.dumps(record.__dict__):
            launch.down(state)
            ours.unlink()


def _announce(site: Site, programs: Programs) -> None:
    page = programs.page
    pids = {name: started.process.pid for name, started in programs.started.items()}
    # Neither holds a secret: those are read from their files, by command.
    environment = {name: dict(plan.vantage_environment(site, name)) for name in site.vantages}
    environment["centre"] = plan.centre_environment(site)
    about = {
        "page": page,
        "passwords": str(site.secrets.passwords),
        "processes": pids,
        "environment": environment,
    }
    (site.folder / "site.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    print(f"page      {page}")
    print(f"user      admin\npassword  {site.secrets.admin_password()}")
    print("Ctrl-C ends the site and removes the lab it raised.", flush=True)


def _raise_stopped(_signal: int, _frame: FrameType | None) -> None:
    raise Stopped


if __name__ == "__main__":
    sys.exit(main())
