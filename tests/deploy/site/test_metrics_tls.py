"""A real Prometheus reads a machine's metrics over TLS, configured by deploy/prometheus and deploy/nginx."""

from __future__ import annotations

import base64
import http.client
import json
import os
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
import requests
import yaml

from firstflight.system.network import exporter, tcp_listener
from lab.hosts import certificates
from lab.system.programs import program
from orchestration.site import machine_metrics
from tests.deploy.site.test_nginx import rendered
from tests.free_port import free_port
from tests.waiting import until

TREE = Path(__file__).parents[3]
ALERTS = TREE / "deploy" / "prometheus" / "alerts.yaml"
# Two vantage points; the address of each is of this machine, and only the first one serves.
HERE, NOBODY = "127.0.0.11", "127.0.0.12"
SITE = f"""
[centre]
ssh_host = "{HERE}"
[store]
ssh_host = "2001:db8::7"
address = "store.example.org"
[[vantage]]
name = "a"
city = "A"
queue = "a"
ssh_host = "{NOBODY}"
"""
PASSWORD = "drawn at random"
GROUPS = {
    "site_centre": ["centre"],
    "site_store": ["store"],
    "site_dashboard": ["centre"],
    "site_vantage_points": ["a"],
}


def scrape(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the program that prints prometheus.yml for the site in `folder`."""
    environment = {**os.environ, "FIRSTFLIGHT_SITE": str(folder)}
    argv = [sys.executable, "-m", "deploy.prometheus.scrape", *options]
    return subprocess.run(argv, cwd=TREE, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the authority and the site; nginx serves the centre's metrics."""
    folder = tmp_path_factory.mktemp("metrics")
    authority = certificates.make_authority(folder)
    issued = certificates.issue(authority, "machine", [HERE])
    for name, path in (("chain.pem", issued.chain), ("key.pem", issued.key), ("ca.pem", authority.path)):
        (folder / name).write_text(path.read_text())
    (folder / "vantage_points.toml").write_text(SITE)
    (folder / "users").write_text(f"prometheus:{{PLAIN}}{PASSWORD}\n")
    servers = rendered(
        "metrics.conf",
        {"firstflight_metrics_from": ["127.0.0.0/25"], "groups": GROUPS, "inventory_hostname": "centre"},
    )
    for old, new in (
        ("/etc/firstflight/tls", str(folder)),
        ("/etc/nginx/firstflight-metrics.users", str(folder / "users")),
        ("listen [::]:9443 ssl;", ""),
        ("listen 9443", f"listen {HERE}:9443"),
    ):
        assert old in servers
        servers = servers.replace(old, new)
    paths = "".join(
        f"{kind}_temp_path {folder}/t;" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "nginx.conf").write_text(
        f"pid {folder}/pid; daemon off; master_process off; error_log stderr; events {{}}"
        f"http {{ access_log off; {paths} {servers} }}"
    )
    command = [program("nginx", "nginx-light"), "-e", "stderr", "-c", str(folder / "nginx.conf")]
    machine = machine_metrics.MachineParts(disks=[folder])
    with ExitStack() as stack:
        listener = tcp_listener.listener("127.0.0.1", 9102)
        exporting = exporter.Exporter(listener, partial(machine_metrics.metrics, machine))
        stack.enter_context(exporting.serving())
        process = stack.enter_context(subprocess.Popen(command))
        stack.callback(process.terminate)
        until((folder / "pid").is_file, lambda: "nginx does not start")
        yield folder


def test_who_may_read_what(site: Path) -> None:
    def ask(path: str, source: str = "127.0.0.1", password: str = PASSWORD) -> int:
        trusted = ssl.create_default_context(cafile=str(site / "ca.pem"))
        connection = http.client.HTTPSConnection(
            HERE, 9443, timeout=60, source_address=(source, 0), context=trusted
        )
        login = base64.b64encode(f"prometheus:{password}".encode()).decode()
        connection.request("GET", path, headers={"Authorization": f"Basic {login}"})
        status = connection.getresponse().status
        connection.close()
        return status

    assert ask("/metrics/machine") == 200
    assert ask("/metrics/machine", password="other") == 401
    assert ask("/metrics/machine", source="127.0.0.200") == 403
    # The centre is neither a vantage point nor the store.
    assert [ask(path) for path in ("/metrics/vantage-point", "/metrics/store", "/metrics", "/")] == [404] * 4
    assert ask("/metrics/dashboard") == 502  # nothing listens there


def test_prometheus_reads_each_machine(site: Path) -> None:
    done = scrape(site, "--ca", "ca.pem")
    assert (done.returncode, done.stderr) == (0, "")
    jobs = {job["job_name"]: job for job in yaml.safe_load(done.stdout)["scrape_configs"]}
    targets = {
        name: [target for config in job["static_configs"] for target in config["targets"]]
        for name, job in jobs.items()
    }
    assert targets == {
        "firstflight-machine": [f"{HERE}:9443", "store.example.org:9443", f"{NOBODY}:9443"],
        "firstflight-vantage-point": [f"{NOBODY}:9443"],
        "firstflight-store": ["store.example.org:9443"],
        "firstflight-dashboard": [f"{HERE}:9443"],
    }
    # Of the targets those that are addresses of this machine: a name would be asked for.
    config = yaml.safe_load(done.stdout)
    config["scrape_configs"] = [jobs["firstflight-machine"]]
    jobs["firstflight-machine"]["static_configs"].pop(1)
    config["global"]["scrape_interval"] = "1s"
    (site / "prometheus.yml").write_text(yaml.safe_dump(config))
    (site / "firstflight_password").write_text(PASSWORD)
    (site / "alerts.yaml").write_text(ALERTS.read_text())
    checked = subprocess.run(
        ["promtool", "check", "config", site / "prometheus.yml"], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    place = f"127.0.0.1:{free_port()}"
    command = [
        "prometheus",
        f"--config.file={site / 'prometheus.yml'}",
        f"--storage.tsdb.path={site / 'data'}",
        f"--web.listen-address={place}",
        "--log.level=error",
    ]

    def values(query: str) -> dict[str, str]:
        try:
            answer = requests.get(f"http://{place}/api/v1/query", params={"query": query}, timeout=60)
        except requests.ConnectionError:
            return {}
        if not answer.ok:  # it is starting
            return {}
        return {result["metric"]["machine"]: result["value"][1] for result in answer.json()["data"]["result"]}

    with ExitStack() as stack:
        process = stack.enter_context(subprocess.Popen(command))
        stack.callback(process.terminate)
        until(lambda: values("up") == {"centre": "1", "a": "0"}, lambda: json.dumps(values("up")))
        assert float(values("firstflight_disk_size_bytes")["centre"]) > 0


def test_a_site_without_a_centre_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "vantage_points.toml").write_text("[[vantage]]\nname = 'a'\ncity = 'A'\nqueue = 'a'\n")
    done = scrape(tmp_path)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
