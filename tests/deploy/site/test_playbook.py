"""The playbook: its style, its syntax, and the environments that it writes. `make deploy-test` runs it."""

from __future__ import annotations

import grp
import json
import os
import pwd
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jinja2
import pytest
import yaml

from lab.site import plan
from lab.state import StateFolder

TREE = Path(__file__).parents[3]
ANSIBLE = TREE / "deploy" / "ansible"
SITE = '[centre]\nssh_host = "c"\n[[vantage]]\nname = "a"\ncity = "A"\nqueue = "a"\nssh_host = "a"\n'
# Variables that only the lab's site sets: its location, and a setting that deployments do not need.
OF_THE_LAB = {"FIRSTFLIGHT_LAB", "PYTHONUNBUFFERED", "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL"}
# Variables that services get from their units, with the paths of their credentials.
OF_THE_UNITS = {"FIRSTFLIGHT_STORE_FILE", "AIRFLOW__API_AUTH__JWT_PRIVATE_KEY_PATH"}
CHOSEN = "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION"  # a site's first runs are its owner's decision


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """The environment of Ansible's programs, with a site of two machines."""
    (tmp_path / "vantage_points.toml").write_text(SITE)
    return {
        **os.environ,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "HOME": str(tmp_path),
        "ANSIBLE_HOME": str(tmp_path / "ansible"),
        "FIRSTFLIGHT_SITE": str(tmp_path),
        "FIRSTFLIGHT_PYTHON": sys.executable,
        "NO_COLOR": "1",
    }


def run(environment: dict[str, str], *command: str) -> subprocess.CompletedProcess[str]:
    """Run one of Ansible's programs in the playbook's folder."""
    return subprocess.run(command, cwd=ANSIBLE, env=environment, capture_output=True, text=True, check=False)


def test_ansible_lint_at_its_strictest(environment: dict[str, str]) -> None:
    done = run(environment, "ansible-lint", "--offline", "-q", "--profile=production", ".")
    assert done.returncode == 0, done.stdout + done.stderr


def test_syntax(environment: dict[str, str]) -> None:
    books = sorted(path.name for path in ANSIBLE.glob("*.yml"))
    assert {"site.yml", "rotate.yml", "remove.yml"} <= set(books)
    done = run(environment, "ansible-playbook", "--syntax-check", *books)
    assert done.returncode == 0, done.stderr


def test_an_inventory_that_fails_is_not_an_empty_one(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "vantage_points.toml").write_text(SITE.replace("[centre]", "[center]"))
    done = run(environment, "ansible-playbook", "--list-hosts", "site.yml")
    assert done.returncode != 0 and "center" in done.stderr


def variables(name: str) -> dict[str, Any]:
    """Return a file of variables."""
    found = yaml.safe_load((ANSIBLE / name).read_text())
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("place", ["centre", "hamburg"])
def test_services_get_the_variables_of_the_labs_site(tmp_path: Path, place: str) -> None:
    """Which `make airflow` runs: the same names, and the same values but for paths and addresses."""
    lab = plan.SiteFolder(tmp_path, StateFolder(tmp_path / "lab"), "198.18.0.10", ("hamburg",))
    tried = plan.centre_environment(lab) if place == "centre" else plan.vantage_environment(lab, place)
    role = "centre" if place == "centre" else "vantage"
    written = {
        **variables("group_vars/all.yml")["firstflight_airflow"],
        **variables(f"roles/{role}/defaults/main.yml")[f"{role}_environment"],
    }
    assert set(tried) - OF_THE_LAB - OF_THE_UNITS <= set(written)
    unit = TREE / "deploy/systemd" / f"firstflight-{'scheduler' if place == 'centre' else 'worker'}.service"
    assert all(f"Environment={name}=%d/" in unit.read_text() for name in OF_THE_UNITS & set(tried))
    assert all(isinstance(value, str) for value in written.values()), "YAML makes True of on"
    for name in set(tried) & set(written):
        if name != CHOSEN and not re.search(r"\{\{|/", written[name]):
            assert written[name] == tried[name], name


def test_the_dashboard_has_the_reports_of_the_centre() -> None:
    """Where both are on one machine."""
    centre = variables("roles/centre/defaults/main.yml")["centre_environment"]
    tasks = yaml.safe_load((ANSIBLE / "roles/dashboard/tasks/main.yml").read_text())
    (written,) = (task for task in tasks if task["name"] == "Write the dashboard's settings")
    lines = written["ansible.builtin.copy"]["content"].splitlines()
    assert f"FIRSTFLIGHT_REPORTS={centre['FIRSTFLIGHT_REPORTS']}" in lines


def changed(tasks: list[dict[str, Any]], state: str, **more: str) -> set[str]:
    """Return the files that tasks with these further keys write, or with `absent` remove."""
    found: set[str] = set()
    for task in tasks:
        for module in ("copy", "file", "template"):
            file = task.get(f"ansible.builtin.{module}", {})
            if file and file.get("state", "file") == state and more.items() <= task.items():
                place = file.get("dest") or file["path"]
                found |= {place.replace("{{ item }}", item) for item in task.get("loop", [""])}
    return found


def tasks_of(role: str, name: str) -> list[dict[str, Any]]:
    """Return the tasks of a file."""
    found = yaml.safe_load((ANSIBLE / "roles" / role / "tasks" / f"{name}.yml").read_text())
    assert isinstance(found, list)
    return found


def test_settings_of_downloads_are_removed_again() -> None:
    """Rights and forwarding are removed. Without downloads no firewall for forwarded packets is needed."""
    tasks = tasks_of("vantage", "downloads")
    written = changed(tasks, "file", when="firstflight_downloads | bool")
    assert any("sysctl.d" in path for path in written)
    assert changed(tasks, "absent", when="not firstflight_downloads | bool") == written


def test_networks_are_scanned_with_zmap() -> None:
    (install, *_) = tasks_of("vantage", "main")
    assert "vantage_scan_packages if firstflight_scan | bool else []" in install["vars"]["common_missing_of"]
    defaults = yaml.safe_load((ANSIBLE / "roles/vantage/defaults/main.yml").read_text())
    assert defaults["vantage_scan_packages"] == ["zmap"]


def test_a_missing_certificate_is_refused_before_any_change(
    environment: dict[str, str], tmp_path: Path
) -> None:
    """A play without the firstflight_acme of the last one, on machines that need a certificate or do not."""
    check, book = "roles/common/tasks/certificate.yml", yaml.safe_load((ANSIBLE / "rotate.yml").read_text())
    first = book[0]
    assert (first["hosts"], first["any_errors_fatal"]) == ("all", True)
    assert first["tasks"][0]["ansible.builtin.include_role"]["tasks_from"] == "certificate.yml"
    before = [task for task in tasks_of("common", "main") if "import_tasks" in "".join(task)]
    assert before[0]["ansible.builtin.import_tasks"] == "certificate.yml"
    hosts: dict[str, dict[str, object]] = {
        "centre": {"firstflight_acme": False},
        "store": {"firstflight_acme": "false"},
        "acme": {"firstflight_acme": "true"},
        "worker": {"firstflight_acme": False},
        "read": {"firstflight_acme": False, "firstflight_metrics_from": ["192.0.2.1/32"]},
    }
    (tmp_path / "store.pem").touch()
    groups = {"site_centre": ["centre", "acme"], "site_store": ["store"], "site_dashboard": []}
    shared = {"firstflight_metrics_from": [], "firstflight_tls": str(tmp_path), "ansible_connection": "local"}
    inventory: dict[str, Any] = {"all": {"hosts": hosts, "vars": shared}}
    for group, members in groups.items():
        inventory[group] = {"hosts": {name: {} for name in members}}
    play = {"hosts": "all", "gather_facts": False, "tasks": [{"import_tasks": str(ANSIBLE / check)}]}
    (tmp_path / "play.yml").write_text(json.dumps([play]))
    (tmp_path / "hosts.json").write_text(json.dumps(inventory))
    done = run(environment, "ansible-playbook", "-i", f"{tmp_path}/hosts.json", f"{tmp_path}/play.yml")
    assert set(re.findall(r"fatal: \[(\w+)\]: FAILED!.*There is no ", done.stdout)) == {"centre", "read"}, (
        done
    )


def test_metrics_and_acme_end_with_their_settings() -> None:
    """Their files are removed: a server with an old password, a hook that replaces other certificates."""
    assert changed(tasks_of("metrics", "absent"), "absent") == changed(tasks_of("metrics", "serve"), "file")
    assert changed(tasks_of("common", "no_acme"), "absent") == changed(tasks_of("common", "acme"), "file")
    chosen = {
        task["ansible.builtin.include_tasks"]: task["when"].removeprefix("firstflight_metrics_from | length ")
        for task in tasks_of("metrics", "main")
    }
    assert chosen == {"serve.yml": "> 0", "absent.yml": "== 0"}
    (play,) = yaml.safe_load((ANSIBLE / "site.yml").read_text())
    assert {"role": "metrics"} in play["roles"], "on each machine"
    (end,) = (task for task in play["post_tasks"] if included(task) == ("common", "no_acme.yml"))
    assert end["when"] == "not firstflight_acme | bool"


def included(task: dict[str, Any]) -> tuple[str, str]:
    """Return role and file of a task that includes tasks of a role."""
    about = task.get("ansible.builtin.include_role", {})
    return about.get("name", ""), about.get("tasks_from", "")


def test_roles_that_others_include_have_no_handlers() -> None:
    """Ansible runs such a handler only where the last role that includes it applies."""
    texts = [path.read_text() for path in ANSIBLE.rglob("*.yml")]
    names = {name for text in texts for name in re.findall(r"include_role:\n\s+name: (\w+)", text)}
    assert names > {"common"}
    assert not [name for name in names if (ANSIBLE / "roles" / name / "handlers").exists()]


def test_a_vantage_point_that_is_removed_runs_and_forwards_nothing() -> None:
    (play,) = yaml.safe_load((ANSIBLE / "remove.yml").read_text())
    (ended,) = (task for task in play["tasks"] if task.get("loop"))
    services = variables("group_vars/all.yml")["firstflight_services"]["site_vantage_points"]
    assert set(ended["loop"]) == set(services)
    assert changed(play["tasks"], "absent") == {
        "/etc/firstflight/secrets",
        "/etc/firstflight/tls/key.pem",
        "/etc/sysctl.d/60-firstflight.conf",
    }
    # nginx does not start with a server that names a missing key.
    assert {("common", "no_acme.yml"), ("metrics", "absent.yml")} <= set(map(included, play["tasks"]))


def test_each_play_gives_the_roles_of_the_database_their_rights() -> None:
    """Also after a play that ended between the copy of the statements and their execution."""
    tasks = yaml.safe_load((ANSIBLE / "roles/centre/tasks/database.yml").read_text())
    (run_sql,) = (
        task for task in tasks if "--file=" in task.get("ansible.builtin.command", {}).get("cmd", "")
    )
    assert "when" not in run_sql and run_sql["changed_when"] is False


# Kind of centre -> its list, the vantage points' copies (`away` does not answer), the confirmation, and the
# list afterwards. If the last is null, the play refuses to run.
ENTRY = "192.0.2.1\n"
CENTRES: dict[str, tuple[str | None, dict[str, str | None], str, str | None]] = {
    "new": (None, {"a": None, "b": ""}, "false", "# Opt-outs"),
    "lost": (None, {"a": None, "b": ENTRY}, "false", None),
    "unknown": (None, {"a": None, "away": None}, "false", None),
    "confirmed": (None, {"a": ENTRY, "away": None}, "true", "# Opt-outs"),
    "restored": (ENTRY, {"a": f"{ENTRY}192.0.2.2\n", "away": None}, "false", ENTRY),
}


def test_a_new_opt_out_list_is_refused_while_vantage_points_may_have_entries(
    environment: dict[str, str], tmp_path: Path
) -> None:
    """The play refuses while a vantage point may have entries, unless their loss is confirmed."""
    user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(os.getegid())
    text = (ANSIBLE / "roles/centre/tasks/optout.yml").read_text()
    for old, new in (
        # All machines are this one, and have a folder each.
        (
            " /var/lib/firstflight/optout",
            f" {tmp_path}/{{{{ inventory_hostname }}}}{{{{ item | default('') }}}}",
        ),
        ("groups.site_vantage_points", "points"),
        ("owner: firstflight", f"owner: {user.pw_name}"),
        ("group: firstflight", f"group: {group.gr_name}"),
    ):
        assert old in text
        text = text.replace(old, new)
    (tmp_path / "tasks.yml").write_text(text)
    points = sorted({point for _, copies, _, _ in CENTRES.values() for point in copies})
    hosts: dict[str, dict[str, Any]] = {name: {"ansible_connection": "local"} for name in (*CENTRES, *points)}
    # ssh exits with status 255 if the host does not answer.
    no_answer = tmp_path / "ssh"
    no_answer.write_text("#!/bin/sh\nexit 255\n")
    no_answer.chmod(0o755)
    hosts["away"] = {"ansible_host": "127.0.0.1", "ansible_ssh_executable": str(no_answer)}
    for name, (centre_list, copies, is_confirmed, _) in CENTRES.items():
        hosts[name] |= {"points": list(copies), "firstflight_new_optout_list": is_confirmed}
        for place, content in [
            (name, centre_list),
            *((f"{name}{point}", copy) for point, copy in copies.items()),
        ]:
            if content is not None:
                (tmp_path / place).mkdir()
                (tmp_path / place / "list").write_text(content)
    (tmp_path / "hosts.json").write_text(json.dumps({"all": {"hosts": hosts}}))
    play = {"hosts": ",".join(CENTRES), "gather_facts": False, "tasks": [{"import_tasks": "tasks.yml"}]}
    (tmp_path / "play.yml").write_text(json.dumps([play]))
    more = json.dumps({"ansible_python_interpreter": sys.executable})
    done = run(
        environment, "ansible-playbook", "-i", f"{tmp_path}/hosts.json", "-e", more, f"{tmp_path}/play.yml"
    )
    refused = dict(
        re.findall(r"fatal: \[(\w+)\]: FAILED! => .*or cannot be reached: (\w+)\. Copy the list", done.stdout)
    )
    assert refused == {"lost": "b", "unknown": "away"}, done.stdout
    for name, (_, _, _, expected) in CENTRES.items():
        found = tmp_path / name / "list"
        if expected is None:
            assert not found.exists()
        else:
            assert found.read_text().startswith(expected)


def test_variables_that_are_yes_or_no_may_be_given_as_text() -> None:
    """`-e NAME=true` sets a string, which conditions do not accept."""
    switches = [name for name, value in variables("group_vars/all.yml").items() if isinstance(value, bool)]
    assert "firstflight_downloads" in switches
    text = "\n".join(path.read_text() for path in ANSIBLE.glob("roles/*/tasks/*.yml"))
    for name in switches:
        used = re.findall(rf"\b{name}\b(?!=)(.*)", text)
        assert used and all(rest.startswith(" | bool") for rest in used), name


def test_a_release_that_was_packed_in_part_is_packed_again(tmp_path: Path) -> None:
    """Ansible skips a task if the file in `creates` exists."""
    tasks = yaml.safe_load((ANSIBLE / "roles/common/tasks/release.yml").read_text())
    (pack,) = (task["ansible.builtin.command"] for task in tasks if task["name"] == "Pack the release")
    (tmp_path / "dist").mkdir()
    (tmp_path / "bin").mkdir()
    packed = tmp_path / "id.tar"
    values = {
        "firstflight_dist": tmp_path / "dist",
        "firstflight_cache": tmp_path,
        "firstflight_release": "id",
    }
    argv, creates = (
        [jinja2.Template(word).render(values) for word in words]
        for words in (pack["argv"], [pack["creates"]])
    )
    assert creates == [str(packed)]
    tar = tmp_path / "bin" / "tar"
    tar.write_text('#!/bin/sh\nfor word; do case "$word" in /*id.tar*) echo >"$word" ;; esac; done\nexit 2\n')
    tar.chmod(0o755)
    for path, is_complete in ((f"{tmp_path}/bin:{os.environ['PATH']}", False), (os.environ["PATH"], True)):
        done = subprocess.run(argv, env={**os.environ, "PATH": path}, check=False)
        assert (done.returncode == 0, packed.is_file()) == (is_complete, is_complete)


def test_secrets_are_never_shown() -> None:
    """Each task that generates, reads or writes a secret has no_log."""
    secret = re.compile(r"builtin\.password|slurp|b64decode|item\.content|\.key\b")
    found_tasks = [task for path in ANSIBLE.rglob("tasks/*.yml") for task in yaml.safe_load(path.read_text())]
    tasks = [each_task for task in found_tasks for each_task in task.get("block", [task])]
    # A task that only checks names of files shows no secret.
    found = {
        task["name"]: task.get("no_log", False)
        for task in tasks
        if secret.search(yaml.safe_dump(task)) and "ansible.builtin.assert" not in task
    }
    assert len(found) == 14 and all(found.values()), found
