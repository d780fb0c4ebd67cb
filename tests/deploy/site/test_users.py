"""Users of services on a machine, and who reads which secret, by the units and the playbook."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

TREE = Path(__file__).parents[3]
UNITS = TREE / "deploy" / "systemd"
ANSIBLE = TREE / "deploy" / "ansible"
SYSUSERS = UNITS / "sysusers.conf"
SECRETS, KEY = "/etc/firstflight/secrets", "/etc/firstflight/tls/key.pem"

USERS = {
    "api-server": "firstflight",
    "scheduler": "firstflight",
    "dag-processor": "firstflight",
    "migrate": "firstflight",
    "airflow-clean": "firstflight",
    "worker": "firstflight",
    "uploads": "firstflight",
    "store": "firstflight-store",
    "backup-store": "firstflight-store",
    "tables": "firstflight-tables",
    "backup": "firstflight-backup",
    "optout": "firstflight-optout",
    "dashboard": "firstflight-dashboard",
    "metrics": "firstflight-metrics",
    "site-metrics": "firstflight-site-metrics",
}
# Services that share a user -> why that separates no less.
SHARED = {
    # At the centre, Airflow's services write the same database, which decides what each of them does, and
    # `uploads` removes their runs. At a vantage point, which is another machine, it loads the worker's runs.
    frozenset(
        {"api-server", "scheduler", "dag-processor", "migrate", "airflow-clean", "worker", "uploads"}
    ): "Airflow, or the worker",
    # The kernel lets only the owner of files link them, and the store's backup has all of its rows.
    frozenset({"store", "backup-store"}): "the owner of the data",
}
# Secret -> the services that read it. `metrics_password` is for nginx, and goes to a file of its own.
READERS = {
    "jwt_secret": {"api-server", "worker", "optout"},
    "jwt_private_key": {"api-server", "scheduler"},
    "api_secret_key": {"api-server", "scheduler"},
    "fernet_key": {"api-server", "scheduler", "dag-processor", "migrate", "airflow-clean"},
    "passwords.json": {"api-server"},
    "store_url": {"scheduler", "worker", "uploads", "tables", "dashboard", "metrics"},
    "store_password": {"store"},
    "store_loader_password": {"store"},
    "metrics_password": set(),
    "key.pem": {"store"},
}
KEEPS_ALL = "backup"  # of the centre: it reads them by a capability
# Secrets of the machine that it does not back up.
NOT_KEPT = {
    "/var/backups/firstflight/store",
    "/etc/shadow",
    "/etc/gshadow",
    "/etc/ssh",
    "/etc/letsencrypt",
    "/etc/ssl/private",
    "/etc/nginx/firstflight-metrics.users",
}
MAY_READ_ANY = {"CAP_DAC_READ_SEARCH", "CAP_DAC_OVERRIDE", "CAP_SYS_ADMIN", "CAP_SYS_PTRACE"}


def settings(folder: Path, part: str) -> dict[str, list[str]]:
    """Return the words of each setting in a unit, including the settings that all units share."""
    found: dict[str, list[str]] = {}
    files = (folder / f"firstflight-{part}.service", folder / "firstflight-.service.d" / "hardening.conf")
    text = "\n".join(path.read_text() for path in files).replace("\\\n", " ")
    for line in text.splitlines():
        key, is_setting, value = line.partition("=")
        if is_setting and not line.startswith("#"):
            found.setdefault(key, []).extend(value.split())
    return found


def tasks() -> Iterator[dict[str, Any]]:
    """Yield all tasks of the playbook, including those in blocks."""
    for path in sorted(ANSIBLE.rglob("tasks/*.yml")):
        for task in yaml.safe_load(path.read_text()):
            yield from task.get("block", [task])


def owners() -> dict[str, str]:
    """Return secret -> the user who reads its file by the path, as the playbook writes it."""
    defaults = yaml.safe_load((ANSIBLE / "roles/common/defaults/main.yml").read_text())
    found: dict[str, str] = dict(defaults["common_owners"])
    for task in tasks():
        written = task.get("ansible.builtin.copy") or task.get("ansible.builtin.file") or {}
        place = str(written.get("dest") or written.get("path") or "")
        if "mode" not in written or (not place.startswith(f"{SECRETS}/") and place != KEY):
            continue
        assert written["mode"] == "0600", place
        names = task.get("loop", [None]) if "{{ item }}" in place else [Path(place).name]
        for name in names if isinstance(names, list) else ():
            if isinstance(name, str) and "{" not in name:
                assert found.setdefault(name, written["owner"]) == written["owner"], name
    return found


def faults(folder: Path) -> list[str]:
    """Return what the units in a folder permit beyond the tables above, or lack."""
    found: list[str] = []
    services = {path.stem.removeprefix("firstflight-"): path for path in folder.glob("firstflight-*.service")}
    if set(services) != set(USERS):
        found.append(f"other services than in the table: {set(services) ^ set(USERS)}")
    users = {part: " ".join(settings(folder, part).get("User", ["root"])) for part in services}
    found += [f"{part} runs as {user}" for part, user in users.items() if user != USERS.get(part)]
    by_path = owners()
    readers: dict[str, set[str]] = {secret: set() for secret in by_path}
    for part in services:
        unit = settings(folder, part)
        places = dict(word.split(":") for word in unit.get("LoadCredential", []))
        closed = {word.removeprefix("-") for word in unit.get("InaccessiblePaths", [])}
        reads_any = users[part] == "root" or not MAY_READ_ANY.isdisjoint(unit.get("AmbientCapabilities", []))
        for secret, owner in by_path.items():
            place = KEY if secret == "key.pem" else f"{SECRETS}/{secret}"
            is_open = place not in closed and str(Path(place).parent) not in closed
            if place in places.values() or (is_open and (reads_any or users[part] == owner)):
                readers[secret].add(part)
        if part == KEEPS_ALL:
            found += [f"{part} reads {place}" for place in sorted(NOT_KEPT - closed)]
        # A unit gets exactly the credentials that it names, under the same names.
        named = " ".join(
            word for key in ("ExecStart", "ExecStartPre", "Environment") for word in unit.get(key, [])
        )
        missing = set(re.findall(r"%d/([\w.]+)", named)) - set(places)
        found += [f"{part} names {secret} and does not load it" for secret in sorted(missing)]
        found += [f"{part} names {place}" for place in (SECRETS, KEY) if place in named]
        renamed = [name for name, place in places.items() if Path(place).name != name]
        found += [f"{part} loads {name} from a file of another name" for name in renamed]
        if unit.get("ProtectSystem") != ["strict"] or unit.get("NoNewPrivileges") != ["yes"]:
            found.append(f"{part} may write or gain more than its unit says")
    for secret, expected in READERS.items():
        if readers.get(secret) != expected | {KEEPS_ALL}:
            found.append(f"{secret} is read by {sorted(readers.get(secret, ()))}")
    found += [f"{secret} is in no table" for secret in set(by_path) - set(READERS)]
    return found


def test_each_service_has_its_user_and_its_secrets_and_no_others() -> None:
    assert faults(UNITS) == []


@pytest.mark.parametrize(
    ("part", "old", "new", "shown"),
    [
        ("dashboard", "User=firstflight-dashboard", "User=firstflight", "dashboard runs as firstflight"),
        ("store", "User=firstflight-store\n", "", "store runs as root"),
        ("metrics", "store_url", "jwt_secret", "jwt_secret is read by"),
        (
            "worker",
            "LoadCredential=jwt_secret:/etc/firstflight/secrets/jwt_secret\n",
            "",
            "jwt_secret is read",
        ),
        (
            "dag-processor",
            "InaccessiblePaths=/etc/firstflight/secrets ",
            "InaccessiblePaths=",
            "jwt_secret is",
        ),
        ("site-metrics", "CapabilityBoundingSet=", "AmbientCapabilities=CAP_DAC_READ_SEARCH\nX=", ""),
        ("tables", "%d/store_url", "%d/jwt_secret", "tables names jwt_secret and does not load it"),
        (
            "uploads",
            "%d/store_url",
            "/etc/firstflight/secrets/store_url",
            "uploads names /etc/firstflight/secrets",
        ),
        (
            "scheduler",
            "LoadCredential=fernet_key:",
            "LoadCredential=other:",
            "from a file of another name",
        ),
        ("backup", "CAP_DAC_READ_SEARCH", "CAP_NET_RAW", "passwords.json is read by ['api-server']"),
        ("backup", " -/etc/letsencrypt", "", "backup reads /etc/letsencrypt"),
    ],
)
def test_a_changed_unit_is_found(tmp_path: Path, part: str, old: str, new: str, shown: str) -> None:
    shutil.copytree(UNITS, tmp_path / "units")
    unit = tmp_path / "units" / f"firstflight-{part}.service"
    text = unit.read_text()
    assert old in text
    unit.write_text(text.replace(old, new))
    found = faults(tmp_path / "units")
    # A capability to read any file is no fault where all paths are closed.
    assert any(shown in fault for fault in found) if shown else found == []


def test_services_of_different_trust_have_different_users() -> None:
    together = {frozenset(part for part, of in USERS.items() if of == user) for user in USERS.values()}
    assert {parts for parts in together if len(parts) > 1} == set(SHARED)


def test_systemd_creates_the_users(tmp_path: Path) -> None:
    place = tmp_path / "etc" / "sysusers.d" / "firstflight.conf"
    place.parent.mkdir(parents=True)
    shutil.copy(SYSUSERS, place)
    done = subprocess.run(
        ["systemd-sysusers", f"--root={tmp_path}"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    created = [line.split(":") for line in (tmp_path / "etc" / "passwd").read_text().splitlines()]
    assert {name for name, *_ in created} == set(USERS.values())
    assert all(0 < int(number) < 1000 and shell.endswith("/nologin") for _, _, number, *_, shell in created)


def test_groups_of_services_are_users_of_the_table() -> None:
    """A group reads what is shared, none of which is a secret: secrets have mode 0600."""
    groups = {}
    for part, user in USERS.items():
        unit = settings(UNITS, part)
        groups[part] = {*unit["Group"], *unit.get("SupplementaryGroups", [])} - {user}
    # Runs, reports, and the opt-out list.
    shared = {"metrics", "site-metrics", "dashboard", "optout"}
    assert {part for part, of in groups.items() if of} == shared
    assert all(groups[part] == {"firstflight"} for part in shared)


def test_the_folders_of_secrets_and_backups_are_closed() -> None:
    main = yaml.safe_load((ANSIBLE / "roles/common/tasks/main.yml").read_text())
    (folders,) = (task["loop"] for task in main if task["name"] == "Create folders")
    (of_secrets,) = (folder for folder in folders if folder["path"] == SECRETS)
    assert (of_secrets["owner"], of_secrets["mode"]) == ("root", "0710")
    backups = yaml.safe_load((ANSIBLE / "roles/common/tasks/backup.yml").read_text())
    (of_part,) = (task for task in backups if task["name"] == "Create the folder of each part")
    assert of_part["ansible.builtin.file"]["mode"] == "0750"
    assert of_part["ansible.builtin.file"]["group"] == USERS["site-metrics"]
    given = {
        part: task["vars"]["common_owner"]
        for task in tasks()
        for part in task.get("vars", {}).get("common_parts", [])
    }
    assert given == {"store": USERS["store"], "settings": USERS["backup"], "airflow": USERS["backup"]}


def environments() -> dict[str, str]:
    """Return the variables that the playbook writes for Airflow's services."""
    groups = yaml.safe_load((ANSIBLE / "group_vars/all.yml").read_text())
    found: dict[str, str] = dict(groups["firstflight_airflow"])
    for role in ("centre", "vantage"):
        found |= yaml.safe_load((ANSIBLE / f"roles/{role}/defaults/main.yml").read_text())[
            f"{role}_environment"
        ]
    return found


def test_a_service_reads_its_credential_and_a_command_of_people_the_file(tmp_path: Path) -> None:
    commands = {name: value for name, value in environments().items() if name.endswith("_CMD")}
    assert len(commands) == 3
    for name, command in commands.items():
        secret = command.rpartition("/")[2].rstrip("'")
        assert secret in READERS, name
        (tmp_path / secret).write_text("of the service\n")
        # Airflow splits it as a shell does, and runs it without one.
        of_service = {**os.environ, "CREDENTIALS_DIRECTORY": str(tmp_path)}
        done = subprocess.run(
            shlex.split(command), env=of_service, capture_output=True, text=True, check=True
        )
        assert done.stdout == "of the service\n"
        # The command of people reads the file of variables by a shell.
        script = f'{name}="{command}"; echo "${name}"'
        shown = subprocess.run(["sh", "-euc", script], env={}, capture_output=True, text=True, check=True)
        assert shlex.split(shown.stdout)[2] == f"cat {SECRETS}/{secret}"


def test_no_file_of_variables_holds_a_secret() -> None:
    """Any service of a user may read it."""
    drawn = re.compile(r"lookup\('ansible.builtin.password|b64decode|\.content\b")
    for task in tasks():
        written = task.get("ansible.builtin.copy") or task.get("ansible.builtin.template") or {}
        if str(written.get("dest", "")).endswith(".env"):
            assert not drawn.search(yaml.safe_dump(task)), task["name"]
    hidden = {name: value for name, value in environments().items() if re.search("KEY|SECRET|PASSWORD", name)}
    assert all(value.startswith(("sh -c 'cat ", "/tmp/")) for value in hidden.values()), hidden
