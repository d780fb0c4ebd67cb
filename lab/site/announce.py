"""Tells people, on standard output, and programs, in site.json, how to use a site that is up."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

from lab.site import plan
from lab.site.plan import Site
from lab.site.run import Programs


def sql_line(site: Site, query: str = "SELECT * FROM table1") -> str:
    """Return the shell command that asks the site's store, as user `firstflight`, from a host of the lab."""
    firstflight = str(Path(sys.executable).with_name("firstflight"))
    enter = [firstflight, "lab", "exec", "--state", str(site.lab.folder), "centre"]
    store = shlex.quote(str(site.secrets.store_url))
    return f"FIRSTFLIGHT_STORE_FILE={store} {shlex.join([*enter, firstflight, 'sql', query])}"


def optout_line(site: Site) -> str:
    """Return the shell command that enters who asks to be left out, without the entries."""
    firstflight = str(Path(sys.executable).with_name("firstflight"))
    return f"FIRSTFLIGHT_OPTOUT={shlex.quote(str(site.optout('centre')))} {firstflight} optout add"


def announce(site: Site, programs: Programs) -> None:
    """Write site.json, and print page, login, commands for SQL and opt-outs, and the folder of reports."""
    # Neither contains a secret: Airflow reads secrets from their files by commands.
    environment = {name: dict(plan.vantage_environment(site, name)) for name in site.vantages}
    environment["centre"] = plan.centre_environment(site)
    about = {
        "page": programs.page,
        "passwords": str(site.secrets.passwords),
        "processes": {name: started.process.pid for name, started in programs.started.items()},
        "environment": environment,
        "sql": sql_line(site),
        "optout": optout_line(site),
    }
    part = site.folder / "site.part"
    part.write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    part.replace(site.folder / "site.json")  # whole for who waits for it
    print(f"page      {programs.page}")
    print(f"user      admin\npassword  {site.secrets.admin_password()}")
    print(f"sql       {about['sql']}")
    print(f"opt-out   {about['optout']} ENTRY...")
    print(f"reports   {site.folder / 'reports'}/RUN/index.html, after the task `report` of quic_scan")
    print("Ctrl-C stops the site and removes the lab that it started.", flush=True)
