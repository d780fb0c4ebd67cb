"""Prints the configuration of a central Prometheus for a site, from vantage_points.toml.

    FIRSTFLIGHT_SITE=FOLDER python -m deploy.prometheus.scrape [--ca FILE] >prometheus.yml

Put alerts.yaml into the same folder, and `firstflight_password`, a copy of the centre's
/etc/firstflight/secrets/metrics_password. `--ca`: the certificate of the site's own authority. Exit status 0,
or 2 with one sentence.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import yaml

from deploy.inventory import inventory
from firstflight.errors import FirstflightError
from orchestration.site.vantage_points import FILE, load, site_folder

PORT = 9443
# Path below /metrics/ -> groups of the inventory that have it (deploy/nginx/metrics.conf.j2).
PATHS = {
    "machine": ("site_centre", "site_store", "site_dashboard", "site_vantage_points"),
    "vantage-point": ("site_vantage_points",),
    "store": ("site_store",),
    "dashboard": ("site_dashboard",),
}
PASSWORD = "firstflight_password"


def configuration(site: dict[str, Any], authority: str | None) -> dict[str, Any]:
    """Return prometheus.yml for an inventory (Ansible's JSON form)."""
    addresses = {
        site[f"site_{part}"]["hosts"][0]: site["all"]["vars"][f"firstflight_{part}_address"]
        for part in ("dashboard", "store", "centre")
    }

    def target(host: str) -> dict[str, Any]:
        address = addresses.get(host) or site["_meta"]["hostvars"][host]["ansible_host"]
        shown = f"[{address}]" if ":" in address else address
        return {"targets": [f"{shown}:{PORT}"], "labels": {"machine": host}}

    def job(path: str, groups: tuple[str, ...]) -> dict[str, Any]:
        hosts = dict.fromkeys(host for group in groups for host in site[group]["hosts"])
        return {
            "job_name": f"firstflight-{path}",
            "scheme": "https",
            "metrics_path": f"/metrics/{path}",
            "basic_auth": {"username": "prometheus", "password_file": PASSWORD},
            **({"tls_config": {"ca_file": authority}} if authority else {}),
            "static_configs": [target(host) for host in hosts],
        }

    return {
        "global": {"scrape_interval": "30s", "evaluation_interval": "30s"},
        "rule_files": ["alerts.yaml"],
        "scrape_configs": [job(path, groups) for path, groups in PATHS.items()],
    }


def main() -> int:
    """Print the configuration."""
    parser = argparse.ArgumentParser(prog="python -m deploy.prometheus.scrape")
    parser.add_argument("--ca", metavar="FILE", help="certificate of the site's own authority")
    options = parser.parse_args()
    try:
        folder = site_folder().absolute()
        content = configuration(inventory(load(folder / FILE), folder), options.ca)
    except FirstflightError as error:
        sys.stderr.write(f"scrape: {error}\n")
        return 2
    sys.stdout.write(yaml.safe_dump(content, sort_keys=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())
