"""The playbook installs a site on bare machines: idempotence, a scan, failures and changes.

The tests depend on their order: each continues with the state that the previous test left.
"""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from tests.deploy.site.test_users import USERS
from tests.machines import upgrade
from tests.machines.machine import Machine
from tests.machines.site import MachineSite
from tests.waiting import until

ONCE = ("tables", "migrate")  # active, without a process
CENTRE = (*ONCE, "api-server", "dag-processor", "scheduler", "site-metrics")
VANTAGE = ("optout", "worker", "metrics", "site-metrics")
PARTS = {
    "centre": CENTRE,
    "store": ("store", "dashboard", "site-metrics"),
    **dict.fromkeys(("hamburg", "los_angeles", "sao_paulo", "hong_kong"), VANTAGE),
}
LIMIT_S = 900.0


def units(site: MachineSite) -> list[tuple[Machine, str]]:
    """Return the site's services."""
    return [(site.machines[name], f"firstflight-{part}.service") for name in PARTS for part in PARTS[name]]


def workers(site: MachineSite) -> dict[str, str]:
    """Return the states of Edge workers at the centre."""
    query = "SELECT worker_name || ' ' || state FROM edge_worker"
    listed = site.machines["centre"].done(f'cd / && runuser -u postgres -- psql -d airflow -tAc "{query}"')
    return dict(line.split(" ", 1) for line in listed.splitlines())


def alive(site: MachineSite, name: str) -> bool:
    """Return whether the centre lists this worker as ready for tasks."""
    return workers(site).get(name) in ("idle", "running")


def wait_for_workers(site: MachineSite) -> None:
    """Wait until all vantage points are ready for tasks."""
    for name in site.vantages:
        until(lambda name=name: alive(site, name), lambda: workers(site), LIMIT_S)  # type: ignore[misc]


def ended_run(site: MachineSite, dag: str) -> str | None:
    """Return the state of a DAG's newest run if it has finished."""
    time.sleep(2)  # each request logs in
    run = site.newest(dag)
    return str(run["state"]) if run and run["state"] in ("success", "failed") else None


def wait_for_scan(site: MachineSite) -> None:
    """Wait until the newest scan has finished; it must succeed."""
    ended = until(lambda: ended_run(site, "quic_scan"), lambda: site.describe("quic_scan"), LIMIT_S)
    assert ended == "success", site.describe("quic_scan")


def test_from_nothing(site: MachineSite) -> None:
    play = site.play()
    assert set(play.changed) == {*PARTS, "localhost"} - {"localhost"} and all(play.changed.values())
    for machine, unit in units(site):
        assert machine.state(unit) == "active", machine.done(f"journalctl -u {unit} -n 50 --no-pager")


def test_again_changes_nothing(site: MachineSite) -> None:
    assert set(site.play().changed.values()) == {0}


def test_secrets_are_closed(site: MachineSite) -> None:
    for name in PARTS:
        found = site.machines[name].done("cd /etc/firstflight/secrets && stat -c '%U %a %n' . *").splitlines()
        assert found[0] == "root 710 ." and len(found) > 1
        assert all(line.startswith(("firstflight 600 ", "root 600 ")) for line in found[1:]), found
        keys = site.machines[name].done("find /etc/firstflight -name '*.key' -o -name key.pem").split()
        assert keys == (["/etc/firstflight/tls/key.pem"] if name in ("centre", "store") else [])


def test_services_run_as_their_users_who_read_no_secrets_of_others(site: MachineSite) -> None:
    for machine, unit in units(site):
        assert (
            machine.state(unit, "User") == USERS[unit.removeprefix("firstflight-").removesuffix(".service")]
        )
    for name in PARTS:
        machine = site.machines[name]
        secrets = machine.done("ls /etc/firstflight/secrets/*").split()
        for user in sorted({*USERS.values()} - {"firstflight"}):
            for secret in secrets:
                assert machine.ssh(f"runuser -u {user} -- cat {secret}").returncode != 0, (name, user, secret)
            if user != "firstflight-store":
                assert machine.ssh(f"runuser -u {user} -- ls /var/lib/firstflight-store").returncode != 0
    ask = "cd / && runuser -u {} -- psql -d airflow -tAc 'SELECT count(*) FROM {}'"
    centre = site.machines["centre"]
    assert centre.done(ask.format("firstflight-backup", "connection")).strip() == "0"
    assert centre.ssh(ask.format("firstflight-site-metrics", "connection")).returncode != 0
    assert centre.done(ask.format("firstflight-site-metrics", "pg_stat_activity")).strip() != "0"


def test_services_are_confined(site: MachineSite) -> None:
    for machine, unit in units(site):
        machine.done(f"systemd-analyze security --threshold=40 --no-pager {unit}")
        assert machine.state(unit, "NoNewPrivileges") == "yes"


def test_a_scan_ends_with_its_rows_in_the_store(site: MachineSite) -> None:
    wait_for_workers(site)
    until(lambda: "quic_scan" in str(site.ask("GET", "/dags")), "the DAGs", LIMIT_S)
    for dag in ("quic_scan", "targets", "as_data"):
        site.ask("PATCH", f"/dags/{dag}", {"is_paused": False})
    wait_for_scan(site)
    rows = site.rows("SELECT vantage, count() AS n FROM quic_probe GROUP BY vantage ORDER BY vantage")
    assert [row["vantage"] for row in rows] == sorted(site.vantages)
    assert all(int(row["n"]) > 0 for row in rows)


def status(site: MachineSite, machine: str, path: str) -> str:
    """Return the HTTP status that hamburg gets for a path on a machine."""
    curl = "curl -sS --path-as-is --max-time 60 --cacert /etc/firstflight/tls/ca.pem"
    curl += " -o /dev/null -w '%{http_code}'"
    return site.machines["hamburg"].done(f"{curl} https://{site.addresses[machine][0]}{path}")


def check_dashboard(site: MachineSite) -> None:
    """Query the dashboard from another machine."""
    address = site.addresses[site.dashboard][0]
    # Right after a restart, the dashboard does not listen yet, and nginx returns 502.
    curl = "curl -sS --fail --retry 60 --retry-delay 1 --max-time 60 --cacert /etc/firstflight/tls/ca.pem"
    page = site.machines["hamburg"].done(f"{curl} 'https://{address}/queries/newest_data.csv'")
    assert all(name in page for name in site.vantages)
    assert status(site, site.dashboard, "/metrics") == "404"


def test_the_dashboard_shows_it(site: MachineSite) -> None:
    check_dashboard(site)


def test_vantage_points_reach_three_paths_of_the_centre(site: MachineSite) -> None:
    for path, expected in (
        ("/", "404"),
        ("/api/v2/version", "404"),
        ("/execution/../api/v2/version", "404"),
        ("/execution/health", "200"),
        ("/x/../execution/health", "200"),
    ):
        assert status(site, "centre", path) == expected, path
    address = site.addresses["centre"][0]
    assert site.machines["hamburg"].ssh(f"curl --max-time 5 http://{address}:8080/").returncode != 0


def test_commands_of_people_have_the_environment_of_the_services(site: MachineSite) -> None:
    centre, hamburg = site.machines["centre"], site.machines["hamburg"]
    # After midnight there may be a second run that hamburg has not started.
    (run,) = site.rows("SELECT run FROM quic_probe WHERE vantage = 'hamburg' LIMIT 1")
    for machine in (centre, hamburg):
        assert run["run"] in machine.done("firstflight runs")
    assert "confirmed" in hamburg.done("firstflight optout status")
    assert "waits" not in hamburg.done("firstflight uploads status")
    assert "scan_hamburg" in centre.done("airflow pools list")
    assert "firstflight" in site.machines["store"].done("firstflight --version")


def test_the_contact_page(site: MachineSite) -> None:
    page = site.machines["centre"].done(f"curl -sS --max-time 30 http://{site.addresses['hamburg'][0]}/x")
    assert "https://contact.example.org/" in page


@pytest.mark.parametrize("name", ["store", "centre", "hamburg"])
def test_kill_9_brings_each_unit_back(site: MachineSite, name: str) -> None:
    machine = site.machines[name]
    for part in PARTS[name]:
        unit = f"firstflight-{part}.service"
        if part in ONCE:
            continue
        before = machine.state(unit, "MainPID")
        machine.done(f"systemctl kill --signal=KILL {unit}")
        until(
            lambda before=before, unit=unit: (
                machine.state(unit) == "active"  # type: ignore[misc]
                and machine.state(unit, "MainPID") not in ("0", before)
            ),
            lambda unit=unit: machine.done(f"journalctl -u {unit} -n 50 --no-pager"),  # type: ignore[misc]
            LIMIT_S,
        )
    if name == "hamburg":
        until(lambda: alive(site, name), lambda: workers(site), LIMIT_S)
    assert site.rows("SELECT count() AS n FROM quic_probe")


def test_upgrade_by_one_commit(site: MachineSite, tmp_path: Path) -> None:
    commit = upgrade.next_commit(tmp_path / "clone")
    before = {name: release_of(site.machines[name]) for name in PARTS}
    assert len(set(before.values())) == 1
    ran = {(machine.name, unit): machine.state(unit, "MainPID") for machine, unit in units(site)}
    site.release = upgrade.release(tmp_path / "dist", commit)
    changed = site.play().changed
    assert all(changed[name] for name in PARTS), changed
    after = {name: release_of(site.machines[name]) for name in PARTS}
    assert len(set(after.values())) == 1 and set(after.values()) != set(before.values())
    for machine, unit in units(site):
        assert machine.state(unit) == "active", machine.done(f"journalctl -u {unit} -n 50 --no-pager")
        assert (
            machine.state(unit, "MainPID") == "0" or machine.state(unit, "MainPID") != ran[machine.name, unit]
        )
    assert set(site.play().changed.values()) == {0}
    wait_for_workers(site)
    # Earlier rows are still present, and rows of the next scan have the new commit.
    assert commits(site) and commit not in commits(site)
    site.ask("POST", "/dags/quic_scan/dagRuns", {"logical_date": None})
    wait_for_scan(site)
    assert commit in commits(site)


def release_of(machine: Machine) -> str:
    """Return the release that a machine uses."""
    return machine.done("readlink /opt/firstflight/current").strip()


def commits(site: MachineSite) -> set[str]:
    """Return the commits in the store's probe rows."""
    rows = site.rows("SELECT DISTINCT tool_version FROM quic_probe")
    return {str(row["tool_version"]).partition("+")[2] for row in rows}


def test_the_secret_of_the_workers_is_rotated(site: MachineSite) -> None:
    read = "cat /etc/firstflight/secrets/jwt_secret"
    before = site.machines["centre"].done(read)
    site.play("rotate.yml")
    after = {site.machines[name].done(read) for name in ("centre", *site.vantages)}
    assert len(after) == 1 and after != {before}
    wait_for_workers(site)
    assert set(site.play().changed.values()) == {0}


def test_backups_are_made_and_metrics_show_them(site: MachineSite) -> None:
    for name, parts in (("centre", ("backup", "airflow-clean")), ("store", ("backup-store",))):
        machine = site.machines[name]
        for part in parts:
            machine.done(f"systemctl start firstflight-{part}.service")
        page = machine.done("curl -sS --fail http://127.0.0.1:9102/metrics")
        backups = re.findall(r'^firstflight_backups\{part="(\w+)"\} (\S+)$', page, re.MULTILINE)
        expected = ("settings", "airflow") if name == "centre" else ("store",)
        assert backups == [(part, "1.0") for part in expected]
    assert site.rows("SELECT count() AS n FROM quic_probe")
    page = site.machines["hamburg"].done("curl -sS --fail http://127.0.0.1:9102/metrics")
    assert "\nfirstflight_optout_confirmed 1.0\n" in page


def test_a_vantage_point_is_added(site: MachineSite) -> None:
    site.vantages.append("tokyo")
    site.declare()
    play = site.play()
    assert play.changed["tokyo"] and play.changed["store"]
    until(lambda: alive(site, "tokyo"), lambda: workers(site), LIMIT_S)
    pools = {pool["name"] for pool in site.ask("GET", "/pools?limit=100")["pools"]}
    assert {"scan_tokyo", "work_tokyo"} <= pools


def test_a_vantage_point_is_removed(site: MachineSite) -> None:
    site.play("remove.yml", "--limit", "tokyo")
    machine = site.machines["tokyo"]
    for part in VANTAGE:
        assert machine.state(f"firstflight-{part}.service") in ("inactive", "failed")
    assert machine.ssh("test -e /etc/firstflight/secrets").returncode == 1
    site.vantages.remove("tokyo")
    site.declare()
    assert "tokyo" not in site.play().changed
    tasks = "/dags/quic_scan/tasks"
    until(
        lambda: "tokyo" not in str(site.ask("GET", tasks)),
        lambda: site.ask("GET", tasks),
        LIMIT_S,
    )


def test_the_dashboard_at_the_centre_has_the_centres_name(site: MachineSite) -> None:
    site.dashboard = "centre"
    site.declare()
    site.play()
    check_dashboard(site)
    reported = site.machines["centre"].done("ls /var/lib/firstflight/reports").split()
    paths = {"/api/v2/version": "404", "/execution/health": "200", f"/reports/{reported[0]}": "200"}
    assert {path: status(site, "centre", path) for path in paths} == paths
    assert set(site.play().changed.values()) == {0}
    wait_for_workers(site)
