"""Prints a site's machines for Ansible, from vantage_points.toml (a dynamic inventory).

    FIRSTFLIGHT_SITE=FOLDER python -m deploy.inventory --list

Hosts are `centre`, `store`, `dashboard` and the names of vantage points; groups are site_centre, site_store,
site_dashboard and site_vantage_points. Without [store] or [dashboard] the centre is in these groups. Exit
status 0, or 2 with one sentence.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from firstflight.errors import FirstflightError, UsageError
from orchestration.site.machines import SiteMachine
from orchestration.site.vantage_points import FILE, SiteVantagePoint, VantagePoints, load, site_folder

CENTRE, STORE, DASHBOARD = "centre", "store", "dashboard"


def inventory(points: VantagePoints, folder: Path) -> dict[str, Any]:
    """Return the inventory (Ansible's JSON form); `folder`: the site's folder.

    UsageError if a machine is not named.
    """
    if points.centre is None:
        raise UsageError(f"{FILE} has no [centre] with ssh_host: the playbook does not know where it is")
    machines = {CENTRE: points.centre}
    if points.store is not None:
        machines[STORE] = points.store
    if points.dashboard is not None:
        machines[DASHBOARD] = points.dashboard
    store, dashboard = points.store or points.centre, points.dashboard or points.centre
    hosts: dict[str, dict[str, Any]] = {
        name: {"ansible_host": machine.ssh_host} for name, machine in machines.items()
    }
    for point in points.vantage:
        if point.name in (CENTRE, STORE, DASHBOARD):
            raise UsageError(
                f"{FILE}: no vantage point may be called {point.name}: the playbook uses the name"
            )
        variables = _host_variables(point)
        for name, other in hosts.items():
            if other["ansible_host"] == point.ssh_host:
                raise UsageError(
                    f"{FILE}: vantage point {point.name} is on the machine of {name}, and would share its "
                    "secrets and the opt-out list: give it a separate machine"
                )
        hosts[point.name] = variables
    return {
        "site_centre": {"hosts": [CENTRE]},
        "site_store": {"hosts": [_host(store, machines)]},
        "site_dashboard": {"hosts": [_host(dashboard, machines)]},
        "site_vantage_points": {"hosts": [point.name for point in points.vantage]},
        "all": {
            "vars": {
                "firstflight_site": str(folder),
                "firstflight_centre_address": points.centre.reached_at,
                "firstflight_store_address": store.reached_at,
                "firstflight_dashboard_address": dashboard.reached_at,
            }
        },
        "_meta": {"hostvars": hosts},
    }


def _host(machine: SiteMachine, machines: dict[str, SiteMachine]) -> str:
    """Return the inventory's name for a machine: two parts with one ssh_host are on one machine."""
    return next(name for name, other in machines.items() if other.ssh_host == machine.ssh_host)


def _host_variables(point: SiteVantagePoint) -> dict[str, Any]:
    if point.ssh_host is None:
        raise UsageError(f"{FILE}: vantage point {point.name} has no ssh_host: name its machine")
    variables: dict[str, Any] = {"ansible_host": point.ssh_host, "firstflight_shards": point.shards}
    for key in ("cloud", "region", "contact_url"):
        if (value := getattr(point, key)) is not None:
            variables[f"firstflight_{key}"] = value
    return variables


def main() -> int:
    """Print the inventory, or a single host's variables."""
    parser = argparse.ArgumentParser(prog="python -m deploy.inventory")
    options_group = parser.add_mutually_exclusive_group(required=True)
    options_group.add_argument("--list", action="store_true")
    options_group.add_argument("--host", metavar="NAME")
    options = parser.parse_args()
    try:
        folder = site_folder().absolute()
        content = inventory(load(folder / FILE), folder)
    except FirstflightError as error:
        sys.stderr.write(f"inventory: {error}\n")
        return 2
    answer = content if options.list else content["_meta"]["hostvars"].get(options.host, {})
    sys.stdout.write(json.dumps(answer, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
