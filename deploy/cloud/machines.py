"""Writes the variables of the OpenTofu modules in this folder, from vantage_points.toml.

    FIRSTFLIGHT_SITE=FOLDER python -m deploy.cloud.machines --key KEY.pub --ssh-from 192.0.2.0/24 OUT

writes OUT/CLOUD.tfvars.json for each cloud that vantage points name and that has a module. A vantage point
without `cloud`, or with a cloud without module, is skipped: its owner sets up the machine. Exit status 0, or
2 with one sentence.
"""

from __future__ import annotations

import argparse
import ipaddress
import json
import re
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from deploy.cloud import user_data
from firstflight.errors import FirstflightError, UsageError
from orchestration.site.vantage_points import FILE, SiteVantagePoint, VantagePoints, load, site_folder

HERE = Path(__file__).parent
_HOST_NAME = re.compile(
    r"(?=.{4,253}$)([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]([a-z0-9-]{0,61}[a-z0-9])?"
)


def clouds() -> list[str]:
    """Return the clouds that have a module, as vantage_points.toml names them: by the module's folder."""
    return sorted(path.parent.name for path in HERE.glob("*/main.tf"))


def variables(points: VantagePoints, first_boot: str, ssh_from: list[str]) -> dict[str, dict[str, Any]]:
    """Return cloud -> the variables for the cloud's module.

    `first_boot`: user data for cloud-init; `ssh_from`: networks that may connect to port 22. UsageError for
    an invalid network, or if a vantage point lacks values that the module needs.
    """
    networks = [_network(text) for text in ssh_from]
    found: dict[str, dict[str, Any]] = {}
    for point in points.vantage:
        if point.cloud not in clouds():
            continue
        common = {"machines": {}, "ssh_from": networks, "user_data": first_boot}
        found.setdefault(point.cloud, common)["machines"][point.name.replace("_", "-")] = _machine(point)
    return found


def _machine(point: SiteVantagePoint) -> dict[str, Any]:
    """Return a vantage point's values for the module."""
    for key, why in (
        ("region", "the cloud needs it"),
        ("contact_url", "the reverse DNS of its addresses leads there"),
    ):
        if getattr(point, key) is None:
            raise UsageError(f"{FILE}: vantage point {point.name} has a cloud and no {key}: {why}")
    return {
        "region": point.region,
        "reverse_dns": reverse_dns(point),
        "udp_ports": [point.scan_ports, point.watch_ports],
    }


def reverse_dns(point: SiteVantagePoint) -> str:
    """Return the DNS name for a vantage point's addresses: its name below the contact page's host.

    A reverse lookup of an address then leads to the contact page. Each machine has another name, because some
    clouds accept only a name that resolves to the address.
    """
    host = urlsplit(point.contact_url or "").hostname or ""
    name = f"{point.name.replace('_', '-').lower()}.{host}"
    if not _HOST_NAME.fullmatch(name):
        raise UsageError(
            f"{FILE}: vantage point {point.name}: {name!r} cannot be the name of its addresses in DNS: "
            "let contact_url name its host, not an address"
        )
    return name


def _network(text: str) -> str:
    try:
        network = ipaddress.ip_network(text)
    except ValueError as error:
        raise UsageError(
            f"--ssh-from {text} is no network: write it as 192.0.2.0/24, without host bits"
        ) from error
    if network.prefixlen == 0:
        raise UsageError(f"--ssh-from {text} allows everybody: name the networks that you connect from")
    return str(network)


def main() -> int:
    """Write the files, and print what was written."""
    parser = argparse.ArgumentParser(prog="python -m deploy.cloud.machines")
    parser.add_argument("--key", type=Path, action="append", required=True, metavar="FILE")
    parser.add_argument("--user", default="deploy", metavar="NAME")
    parser.add_argument("--ssh-from", action="append", required=True, metavar="NETWORK")
    parser.add_argument("out", type=Path, metavar="OUT")
    options = parser.parse_args()
    try:
        points = load(site_folder() / FILE)
        first_boot = user_data.text(options.user, options.key)
        found = variables(points, first_boot, options.ssh_from)
        if not found:
            raise UsageError(f"no vantage point in {FILE} has a cloud with a module: {', '.join(clouds())}")
        options.out.mkdir(parents=True, exist_ok=True)
        for cloud, values in found.items():
            path = options.out / f"{cloud}.tfvars.json"
            path.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
            sys.stdout.write(f"{path}: {', '.join(values['machines'])}\n")
    except (OSError, FirstflightError, user_data.WrongUse) as error:
        sys.stderr.write(f"machines: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
