"""`make airflow`: a whole site over the lab, until Ctrl-C.

python -m lab.site [--folder DIR] [--port N] [--paused]
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType

from firstflight.errors import FirstflightError
from lab import internet, launch
from lab.site import plan
from lab.site.plan import API_PORT, Part, Site
from lab.site.run import Programs, enter, once
from lab.state import State, locate


class Told(Exception):
    """SIGINT or SIGTERM came."""


def say(text: str) -> None:
    """Tell people."""
    print(f"site: {text}", file=sys.stderr, flush=True)


def raise_site(programs: Programs, port: int) -> int:
    """Prepare and start everything; the port of the page on the machine's loopback."""
    site = programs.site
    plan.prepare(site)
    everything = plan.parts(site)
    # First, because its port may be taken.
    forward = [sys.executable, "-P", "-m", "lab.forward", "--state", str(site.lab.folder)]
    forward += ["--host", "centre", "--to", f"127.0.0.1:{API_PORT}", "--port", str(port)]
    programs.start(Part("page", "", tuple(forward), {}, ready=r"READY \d+"))
    programs.wait_ready(["page"])
    centre = plan.centre_environment(site)
    log = site.logs / "prepare.log"
    say("preparing Airflow's database")
    airflow = [*enter(site.lab.folder, "centre"), sys.executable, "-P", "-m", "airflow"]
    once([*airflow, "db", "migrate"], centre, log, "airflow db migrate")
    pools = site.folder / "pools.json"
    # A process of its own: the lab's code knows nothing of what it helps to test.
    listed = subprocess.run(
        [sys.executable, "-P", "-m", "firstflight.schedule.pools"],
        env={**centre},
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode != 0:
        raise FirstflightError(listed.stderr.strip())
    pools.write_text(listed.stdout, encoding="utf-8")
    once([*airflow, "pools", "import", str(pools)], centre, log, "airflow pools import")
    say("starting the store and Airflow's central services")
    central = [part for part in everything if not part.worker]
    for part in central:
        programs.start(part)
    programs.wait_ready([part.name for part in central])
    say(f"starting {len(site.vantages)} Edge workers")
    for part in everything:
        if part.worker:
            programs.start(part)
    return int(programs.started["page"].said().split("READY ")[1].split()[0])


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
        signal.signal(signum, _told)
    state = locate(None)
    raised = False
    try:
        raised = _raise_lab(state)
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
            port = raise_site(programs, options.port)
            _announce(site, port, programs)
            while True:
                time.sleep(1)
                programs.look(say)
    except Told:
        say("ended")
        return 0
    except FirstflightError as error:
        print(f"site: {error}", file=sys.stderr)
        return error.exit_status
    finally:
        # From here on a second Ctrl-C must not leave anything behind.
        for signum in (signal.SIGINT, signal.SIGTERM):
            signal.signal(signum, signal.SIG_IGN)
        if raised:
            launch.down(state)


def _raise_lab(state: State) -> bool:
    if state.running() is not None:
        say("using the lab that is up")
        return False
    launch.up(state, internet.DEFAULT, capture_edges=False, realtime=True, progress=say)
    return True


def _announce(site: Site, port: int, programs: Programs) -> None:
    page = f"http://127.0.0.1:{port}"
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


def _told(_signal: int, _frame: FrameType | None) -> None:
    raise Told


if __name__ == "__main__":
    sys.exit(main())
