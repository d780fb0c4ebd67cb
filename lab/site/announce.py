"""Prints how to use a running site, and writes the same for programs to site.json."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

from lab.site import plan
from lab.site.plan import SiteFolder
from lab.site.run import Programs


def sql_line(site: SiteFolder, query: str = "SELECT * FROM table1") -> str:
    """Return the shell command that queries the site's store from a host of the lab, as `firstflight`."""
    firstflight = str(Path(sys.executable).with_name("firstflight"))
    enter = [firstflight, "lab", "exec", "--state", str(site.lab.folder), "centre"]
    store = shlex.quote(str(site.secrets.store_url))
    return f"FIRSTFLIGHT_STORE_FILE={store} {shlex.join([*enter, firstflight, 'sql', query])}"


def optout_line(site: SiteFolder) -> str:
    """Return the shell command that adds entries to the opt-out list, without the entries."""
    firstflight = str(Path(sys.executable).with_name("firstflight"))
    return f"FIRSTFLIGHT_OPTOUT={shlex.quote(str(site.optout('centre')))} {firstflight} optout add"


def announce(site: SiteFolder, programs: Programs) -> None:
    """Write site.json, and print page, login, commands for SQL and opt-outs, and the folder of reports."""
    # Neither contains a secret: Airflow reads secrets from their files by commands.
    environment = {name: dict(plan.vantage_environment(site, name)) for name in site.vantages}
    environment["centre"] = plan.centre_environment(site)
    description = {
        "page": programs.page,
        "passwords": str(site.secrets.passwords),
        "processes": {name: started.process.pid for name, started in programs.started.items()},
        "environment": environment,
        "sql": sql_line(site),
        "optout": optout_line(site),
    }
    part = site.folder / "site.part"
    part.write_text(json.dumps(description, indent=1) + "\n", encoding="utf-8")
    part.replace(site.folder / "site.json")  # atomic, for programs that wait for it
    print(f"page      {programs.page}")
    print(f"user      admin\npassword  {site.secrets.admin_password()}")
    print(f"sql       {description['sql']}")
    print(f"opt-out   {description['optout']} ENTRY...")
    print(f"reports   {site.folder / 'reports'}/RUN/index.html, after the task `report` of quic_scan")
    print("Ctrl-C stops the site and removes the lab that it started.", flush=True)
