"""A site on machines: its folder, the playbook, Airflow's interface over SSH, the store."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deploy import dist
from lab.hosts import certificates
from lab.state import StateFolder
from tests.machines.machine import TREE, Key, Machine

ANSIBLE = TREE / "deploy" / "ansible"
LAB_SITE = TREE / "lab" / "site"
NAMES = 60
"""The number of names in the list, so that a scan takes seconds."""
_RECAP = re.compile(r"^(\S+)\s+: ok=(\d+)\s+changed=(\d+)\s+unreachable=(\d+)\s+failed=(\d+)", re.MULTILINE)


@dataclass
class Play:
    """A playbook's result: changed tasks per host."""

    changed: dict[str, int]
    output: str


@dataclass
class MachineSite:
    """A site in the lab: centre and store on separate hosts, a dashboard, and vantage points."""

    folder: Path
    lab: StateFolder
    key: Key
    machines: dict[str, Machine]
    addresses: dict[str, tuple[str, str]]  # IPv4 and IPv6 addresses in the lab
    vantages: list[str] = field(default_factory=list)
    dashboard: str = "store"  # the machine of the dashboard
    release: Path = dist.OUT

    def prepare(self) -> None:
        """Write the site's folder: the lab's settings with few names, lists, certificates."""
        self.folder.mkdir()
        for name in ("site.toml", "watch.toml", "downloads.toml", "watched.txt"):
            # Services may only write below /var/lib/firstflight.
            text = (LAB_SITE / name).read_text()
            self.write(name, text.replace('= "cache/', '= "/var/lib/firstflight/cache/'))
        shutil.copyfile(LAB_SITE.parent / "downloads.txt", self.folder / "downloads.txt")
        settings = (self.folder / "site.toml").read_text()
        settings = re.sub(r"^crux_.*\n", "", settings, flags=re.MULTILINE).replace("tranco+crux", "tranco")
        self.write("site.toml", settings.replace("top = 1_000_000", f"top = {NAMES}"))
        shutil.copytree(self.lab.folder / "lists", self.folder / "lab" / "lists")
        self.write("lab/certificates/ca.pem", self.lab.authority.read_text())
        authority = certificates.make_authority(self.lab.folder)
        tls = self.folder.with_name(f"{self.folder.name}-tls")
        tls.mkdir(mode=0o700)
        for name in ("centre", "store"):
            issued = certificates.issue(authority, f"machine-{name}", [self.addresses[name][0]])
            shutil.copyfile(issued.chain, tls / f"{name}.pem")
            shutil.copyfile(issued.key, tls / f"{name}.key")
        shutil.copyfile(authority.path, tls / "ca.pem")
        self.declare()

    def declare(self) -> None:
        """Write vantage_points.toml for the current vantage points."""
        lines = []
        for part, machine in (("centre", "centre"), ("store", "store"), ("dashboard", self.dashboard)):
            lines += [f"[{part}]", f'ssh_host = "{self.machines[machine].address}"']
            lines += [f'address = "{self.addresses[machine][0]}"', ""]
        for name in self.vantages:
            sources = json.dumps(self.addresses[name])
            lines += ["[[vantage]]", f'name = "{name}"', f'city = "{name}"', f'queue = "{name}"']
            lines += [f"sources = {sources}", 'interface = "eth0"', "scan_rate = 150", "watch_rate = 20"]
            lines += [f'ssh_host = "{self.machines[name].address}"', 'cloud = "lab"', 'region = "test"']
            lines += ['contact_url = "https://contact.example.org/"', ""]
        self.write("vantage_points.toml", "\n".join(lines))

    def write(self, name: str, text: str) -> None:
        """Write a file in the site's folder."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def play(self, book: str = "site.yml", *options: str) -> Play:
        """Run a playbook over SSH; it must not fail."""
        connection = ["-o", "ControlMaster=auto", "-o", "ControlPersist=60s", *self.key.options()]
        environment = {
            **os.environ,
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "FIRSTFLIGHT_SITE": str(self.folder),
            "FIRSTFLIGHT_PYTHON": sys.executable,
            "ANSIBLE_CONFIG": str(ANSIBLE / "ansible.cfg"),
            "ANSIBLE_SSH_ARGS": " ".join(connection),
            "ANSIBLE_LOCAL_TEMP": str(self.folder.parent / "ansible"),
            "ANSIBLE_SSH_CONTROL_PATH_DIR": str(self.folder.parent / "cp"),
            "ANSIBLE_NOCOLOR": "1",
        }
        shown = {
            "firstflight_dist": str(self.release),
            "firstflight_cache": str(self.folder.parent / "cache"),
            "firstflight_heartbeat_s": 2,
            "firstflight_silence_s": 15,
        }
        command = ["ansible-playbook", "-u", "root", "--private-key", str(self.key.private)]
        done = subprocess.run(
            [*command, "-e", json.dumps(shown), book, *options],
            cwd=ANSIBLE,
            env=environment,
            capture_output=True,
            text=True,
            timeout=7200,
            check=False,
        )
        (self.folder.parent / f"{book}.log").write_text(done.stdout + done.stderr)
        assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
        recap = _RECAP.findall(done.stdout)
        assert recap, done.stdout
        return Play({host: int(changed) for host, _, changed, _, _ in recap}, done.stdout)

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """Call Airflow's API on the centre's loopback, as an administrator does over SSH."""
        centre = self.machines["centre"]
        passwords = json.loads(centre.done("cat /etc/firstflight/secrets/passwords.json"))
        login = json.dumps({"username": "admin", "password": passwords["admin"]})
        curl = "curl -sS --max-time 60 -H 'Content-Type: application/json'"
        token = json.loads(centre.done(f"{curl} -d '{login}' http://127.0.0.1:8080/auth/token"))
        more = f"-d '{json.dumps(body)}'" if body is not None else ""
        header = f"-H 'Authorization: Bearer {token['access_token']}'"
        answer = centre.done(f"{curl} {header} -X {method} {more} 'http://127.0.0.1:8080/api/v2{path}'")
        return json.loads(answer) if answer else None

    def newest(self, dag: str) -> dict[str, Any] | None:
        """Return a DAG's newest run, or `None`."""
        runs = self.ask("GET", f"/dags/{dag}/dagRuns?order_by=-run_after&limit=1")["dag_runs"]
        return runs[0] if runs else None

    def describe(self, dag: str) -> str:
        """Return the progress of a DAG's newest run, for messages."""
        run = self.newest(dag)
        if run is None:
            return f"{dag} has no run"
        tasks = self.ask("GET", f"/dags/{dag}/dagRuns/{run['dag_run_id']}/taskInstances?limit=500")
        states = ", ".join(f"{task['task_id']} {task['state']}" for task in tasks["task_instances"])
        return f"{dag} {run['state']}: {states}"

    def rows(self, query: str) -> list[dict[str, Any]]:
        """Return the result of a query that runs at the centre."""
        command = f'firstflight sql "{query}" --format JSONEachRow'
        return [json.loads(line) for line in self.machines["centre"].done(command).splitlines()]
