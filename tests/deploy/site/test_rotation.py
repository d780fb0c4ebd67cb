"""rotate.yml: each secret has a command, and what Airflow's database has encrypted stays readable."""

from __future__ import annotations

import grp
import json
import os
import pwd
import sys
from pathlib import Path

import yaml
from cryptography.fernet import Fernet, MultiFernet

from tests.deploy.site.test_playbook import ANSIBLE, run, variables
from tests.deploy.site.test_playbook import environment as environment
from tests.deploy.site.test_users import READERS, tasks

ALL = set(READERS) - {"key.pem"}
TASKS = ANSIBLE / "roles" / "common" / "tasks" / "rotate.yml"
DEFAULTS = yaml.safe_load((ANSIBLE / "roles" / "common" / "defaults" / "main.yml").read_text())
CENTRE, STORE = list(DEFAULTS["common_owners"]), DEFAULTS["common_secrets_of_store"]
# Tells what the key file has when Airflow encrypts again.
AIRFLOW = '#!/bin/sh\n[ "$1" = rotate-fernet-key ] && cp "{folder}/fernet_key" "{folder}/while_rotating"\n'


def test_each_secret_of_a_machine_can_be_rotated() -> None:
    """But for store_url, which is made of a password."""
    assert {*CENTRE, *STORE} == ALL - {"store_url"}
    assert variables("group_vars/all.yml")["firstflight_secret"] == "jwt_secret"
    drawn = "\n".join(path.read_text() for path in ANSIBLE.glob("roles/*/tasks/main.yml"))
    drawn_at_centre = (f"name: {name}," in drawn or f"secrets/{name}\n" in drawn for name in CENTRE)
    assert all(drawn_at_centre) and f"loop: [{', '.join(STORE)}]" in drawn


def test_a_new_secret_restarts_its_readers_and_no_others() -> None:
    """Services of the centre read all of its secrets but one, which is for nginx."""
    notified: dict[str, str | None] = {}
    for task in tasks():
        if "ansible.builtin.file" not in task:
            text = yaml.safe_dump(task)
            names = [name for name in CENTRE if f"name: {name}\n" in text or f"secrets/{name}\n" in text]
            notified |= {name: task.get("notify") for name in names if task["name"].startswith("Draw ")}
    assert notified == {name: "Secrets changed" if READERS[name] else None for name in CENTRE}


def test_what_is_removed_and_what_is_encrypted_again(environment: dict[str, str], tmp_path: Path) -> None:
    """A machine for each secret that is rotated, and one on which another is."""
    user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(os.getegid())
    text = TASKS.read_text()
    place = f"{tmp_path}/{{{{ inventory_hostname }}}}"
    for old, new in (
        ("/etc/firstflight/secrets", place),
        ("/usr/local/sbin/airflow", f"{place}/airflow"),
        ("owner: firstflight", f"owner: {user.pw_name}"),
        ("group: firstflight", f"group: {group.gr_name}"),
        ("ansible.builtin.systemd_service:", "ansible.builtin.debug:"),
        ('name: "{{ item }}"\n        state: restarted', 'msg: "restarted {{ item }}"'),
    ):
        assert old in text, old
        text = text.replace(old, new)
    (tmp_path / "tasks.yml").write_text(text)
    hosts = {
        # Host -> its group, and the secret that is rotated.
        "centre": ("site_centre", "api_secret_key"),
        "encrypted": ("site_centre", "fernet_key"),
        "apart": ("site_store", "api_secret_key"),
        "store": ("site_store", "store_password"),
        "unknown": ("site_centre", "other"),
        "unread": ("site_centre", "metrics_password"),
    }
    old = Fernet.generate_key().decode()
    for host in hosts:
        folder = tmp_path / host
        folder.mkdir()
        for name in sorted(ALL):
            (folder / name).write_text(f"{old}\n")
        (folder / "airflow").write_text(AIRFLOW.format(folder=folder))
        (folder / "airflow").chmod(0o755)
    groups: dict[str, dict[str, dict[str, dict[str, str]]]] = {
        "site_centre": {"hosts": {}},
        "site_store": {"hosts": {}},
    }
    for host, (of, secret) in hosts.items():
        groups[of]["hosts"][host] = {"ansible_connection": "local", "firstflight_secret": secret}
    (tmp_path / "hosts.json").write_text(json.dumps(groups))
    play = {"hosts": "all", "gather_facts": False, "tasks": [{"import_tasks": "tasks.yml"}]}
    (tmp_path / "play.yml").write_text(json.dumps([play]))
    more = json.dumps(
        {"ansible_python_interpreter": sys.executable, "firstflight_metrics_from": [], **DEFAULTS}
    )
    done = run(
        environment, "ansible-playbook", "-i", f"{tmp_path}/hosts.json", "-e", more, f"{tmp_path}/play.yml"
    )
    assert "There is no secret other: name one of jwt_secret," in done.stdout, done.stdout + done.stderr
    assert "Nobody has metrics_password while firstflight_metrics_from is empty" in done.stdout
    for host, (_, secret) in hosts.items():
        missing = {name for name in ALL if not (tmp_path / host / name).exists()}
        assert missing == ({secret} if host in ("centre", "store") else set()), host
    folder = tmp_path / "encrypted"
    both = (folder / "while_rotating").read_text().strip().split(",")
    (new,) = (folder / "fernet_key").read_text().split()
    assert both == [new, old] and new != old
    assert (folder / "fernet_key").stat().st_mode & 0o777 == 0o600
    # Airflow reads what the old key encrypted, and writes with the new one.
    keys = MultiFernet([Fernet(key) for key in both])
    assert Fernet(new).decrypt(keys.rotate(Fernet(old).encrypt(b"value"))) == b"value"
    assert done.stdout.count("restarted firstflight-") == 3
    assert new not in done.stdout and old not in done.stdout
