"""What the playbook writes to watch and clean a machine: options of commands, rules of systemd-tmpfiles."""

from __future__ import annotations

import grp
import os
import pwd
import shlex
import subprocess
import sys
import time
from pathlib import Path

import click
import jinja2
import pytest

from cli import main

DEPLOY = Path(__file__).parents[3] / "deploy"
DAY_S = 86_400.0
# Hosts of each group, as deploy/inventory.py names them.
ONE_MACHINE = {"centre": ["centre"], "store": ["centre"], "dashboard": ["centre"], "vantage_points": ["a"]}
APART = {"centre": ["centre"], "store": ["store"], "dashboard": ["www"], "vantage_points": ["a"]}


def rendered(path: Path, **values: object) -> str:
    """Return a template as Ansible renders it."""
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, trim_blocks=True)
    return environment.from_string(path.read_text()).render(values)


def options(
    groups: dict[str, list[str]], host: str, metrics_from: list[str]
) -> tuple[dict[str, object], str]:
    """Return the options of `site metrics` on a host, and all of the file."""
    text = rendered(
        DEPLOY / "ansible" / "templates" / "site-metrics.env.j2",
        groups={f"site_{name}": hosts for name, hosts in groups.items()},
        inventory_hostname=host,
        firstflight_metrics_from=metrics_from,
    )
    (line,) = (line for line in text.splitlines() if line.startswith("FIRSTFLIGHT_METRICS_OF="))
    group = main.root.get_command(click.Context(main.root), "site")
    assert isinstance(group, click.Group)
    command = group.commands["metrics"]
    context = command.make_context("metrics", shlex.split(line.partition("=")[2])[0].split())
    return context.params, text


def test_each_machine_is_checked_for_its_parts() -> None:
    centre, _ = options(ONE_MACHINE, "centre", [])
    assert centre["parts"] == ("settings", "airflow", "store")
    assert centre["airflow"] and centre["database"] and centre["certificates"]
    apart, _ = options(APART, "centre", [])
    assert apart["parts"] == ("settings", "airflow")
    store, _ = options(APART, "store", [])
    assert store["parts"] == ("store",) and not store["airflow"] and not store["database"]
    folders = {host: {str(path) for path in options(APART, host, [])[0]["disks"]} for host in ("store", "a")}  # type: ignore[attr-defined]
    assert folders["store"] - folders["a"] == {"/var/lib/firstflight-store"}
    for host in ("www", "a"):
        found, text = options(APART, host, [])
        assert found["disks"] and not found["parts"] and found["backups"] is None
        assert ("FIRSTFLIGHT_OPTOUT=followed:" in text) == (host == "a")
    # Without metrics over TLS a vantage point has no certificate.
    assert not options(APART, "a", [])[0]["certificates"]
    assert options(APART, "a", ["192.0.2.7/32"])[0]["certificates"]


def test_a_renewed_certificate_is_put_where_services_read_it(tmp_path: Path) -> None:
    lineage, tls, called = tmp_path / "live", tmp_path / "tls", tmp_path / "called"
    for folder in (lineage, tls, tmp_path / "bin"):
        folder.mkdir()
    for name in ("privkey.pem", "fullchain.pem"):
        (lineage / name).write_text(name)
    program = tmp_path / "bin" / "systemctl"
    program.write_text(f'#!/bin/sh\necho "$@" >>{called}\n')
    program.chmod(0o755)
    text = (DEPLOY / "ansible/roles/common/files/firstflight-certificate").read_text()
    user, group = pwd.getpwuid(os.geteuid()).pw_name, grp.getgrgid(os.getegid()).gr_name
    for old, new in (
        ("/etc/firstflight/tls", str(tls)),
        ("-o root -g root", f"-o {user} -g {group}"),
    ):
        assert old in text
        text = text.replace(old, new)
    environment = {"PATH": f"{tmp_path}/bin:/usr/bin:/bin"}
    done = subprocess.run(["sh", "-c", text], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode != 0 and "certbot runs this" in done.stderr and not list(tls.iterdir())
    environment["RENEWED_LINEAGE"] = str(lineage)
    subprocess.run(["sh", "-c", text], env=environment, check=True)
    found = {path.name: (path.read_text(), path.stat().st_mode & 0o777) for path in tls.iterdir()}
    assert found == {"key.pem": ("privkey.pem", 0o600), "chain.pem": ("fullchain.pem", 0o644)}
    assert called.read_text().splitlines() == [
        "try-reload-or-restart nginx.service",
        "try-restart firstflight-store.service",
    ]


@pytest.mark.parametrize("days", [1, 90])
def test_old_logs_of_airflow_are_removed(tmp_path: Path, days: int) -> None:
    """By systemd-tmpfiles itself."""
    logs = tmp_path / "logs"
    text = rendered(DEPLOY / "systemd" / "tmpfiles.conf.j2", firstflight_keep_airflow_days=days)
    assert "/var/lib/firstflight/airflow/logs" in text
    rules = tmp_path / "firstflight.conf"
    rules.write_text(text.replace("/var/lib/firstflight/airflow/logs", str(logs)))
    paths = {}
    for name, age_days in (("old", days + 0.5), ("new", days - 0.5)):
        paths[name] = logs / f"dag_id={name}" / "attempt=1.log"
        paths[name].parent.mkdir(parents=True)
        paths[name].touch()
        at = time.time() - age_days * DAY_S
        os.utime(paths[name], (time.time(), at))
    done = subprocess.run(["systemd-tmpfiles", "--clean", rules], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert {name for name, path in paths.items() if path.exists()} == {"new"}


def test_a_capability_reads_for_the_backup_what_modes_forbid(tmp_path: Path) -> None:
    """As in firstflight-backup.service: another user than the owner, with a single capability."""
    closed, backups = tmp_path / "closed", tmp_path / "backups"
    closed.mkdir()
    (closed / "list").write_text("192.0.2.1\n")
    closed.chmod(0)
    backups.mkdir()
    backups.chmod(0o777)
    other = ["--reuid=65534", "--regid=65534", "--clear-groups"] if os.geteuid() == 0 else []
    rights = ["--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search"]
    program = [sys.executable, "-P", "-m", "cli", "site", "backup", "settings"]
    done = subprocess.run(
        ["setpriv", *other, *rights, *program, "--to", str(backups), "--path", str(closed)],
        cwd=DEPLOY.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    closed.chmod(0o700)
    assert done.returncode == 0, done.stderr
    assert "restored as a test" in done.stdout


def test_folders_that_services_cannot_list_are_accepted() -> None:
    """Metrics of the store's machine: only the size of its disk is read, and the store's folder is closed."""
    group = main.root.get_command(click.Context(main.root), "site")
    assert isinstance(group, click.Group)
    types = [
        option.type
        for command in group.commands.values()
        for option in command.params
        if isinstance(option.type, click.Path)
    ]
    assert len(types) == 8 and not any(kind.readable for kind in types)
