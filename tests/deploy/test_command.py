"""The command that the playbook installs for users: it runs as the services do."""

from __future__ import annotations

import os
import pwd
import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import yaml

ROLES = Path(__file__).parents[2] / "deploy/ansible/roles"
COMMAND = ROLES / "common/files/firstflight"
PROGRAM = """#!/bin/sh
echo "${0##*/}|$(pwd)|$(umask)|$OF|${AIRFLOW__A:-}"
printf '%s\\n' "$@"
"""
IDENTITY = """#!/bin/sh
echo "$$ $(id -un) $HOME ${LEFT:-}"
grep CapEff /proc/self/status
"""
NET_RAW = 1 << 13  # capabilities(7)


def groups() -> dict[str, str]:
    """Return part -> the group of the part's file of variables, which the playbook closes to others."""
    found = {}
    for path in ROLES.glob("*/tasks/main.yml"):
        for task in yaml.safe_load(path.read_text()):
            file = task.get("ansible.builtin.copy") or task.get("ansible.builtin.template") or {}
            if place := re.fullmatch(
                r"/etc/firstflight/(centre|vantage|dashboard|store)\.env", str(file.get("dest"))
            ):
                assert (file["owner"], file["mode"]) == ("root", "0640")
                found[place[1]] = file["group"]
    return found


def install(folder: Path, user: str, name: str, parts: Sequence[str], program: str, store: str = "") -> Path:
    """Install the command for the user's services, and a program in their place; return the command.

    `store`: the user of a store that is alone on its machine [`user`].
    """
    text = COMMAND.read_text()
    for path in ("/etc/firstflight", "/opt/firstflight"):
        assert path in text
        text = text.replace(path, f"{folder}{path}")
    for old, new in (
        ("user=firstflight-store\n", f"user={store or user}\n"),
        ("user=firstflight\n", f"user={user}\n"),
        ('--regid="$user"', '--regid="$(id -g "$user")"'),
        ('cd "/var/lib/$user"', f'cd "{folder}/var/lib/firstflight"'),
    ):
        assert old in text
        text = text.replace(old, new)
    for path in ("etc/firstflight", "opt/firstflight/current/venv/bin", "var/lib/firstflight", "sbin"):
        (folder / path).mkdir(parents=True)
    of_playbook = groups()
    users = {"firstflight": user, "firstflight-store": store or user}
    for part in parts:
        variables = folder / f"etc/firstflight/{part}.env"
        variables.write_text(f'OF="{part}"\nAIRFLOW__A="cat /x y"\n')
        variables.chmod(0o640)
        if os.geteuid() == 0:
            os.chown(variables, 0, pwd.getpwnam(users[of_playbook[part]]).pw_gid)
    for path, content in ((f"opt/firstflight/current/venv/bin/{name}", program), (f"sbin/{name}", text)):
        (folder / path).write_text(content)
        (folder / path).chmod(0o755)
    return folder / "sbin" / name


@pytest.mark.parametrize(
    ("name", "parts", "of"),
    [
        ("firstflight", ["centre", "dashboard", "store"], "centre"),
        ("airflow", ["centre"], "centre"),
        ("firstflight", ["vantage"], "vantage"),
        ("firstflight", ["store", "dashboard"], "dashboard"),
        ("firstflight", ["store"], "store"),
    ],
)
def test_it_has_the_environment_of_a_part(tmp_path: Path, name: str, parts: Sequence[str], of: str) -> None:
    # The name comes from the user ID, as in `id -un`, not from $USER or $LOGNAME.
    command = install(tmp_path, pwd.getpwuid(os.geteuid()).pw_name, name, parts, PROGRAM)
    done = subprocess.run([command, "optout", "add", "a b"], capture_output=True, text=True, check=True)
    place = tmp_path / "var/lib/firstflight"
    assert done.stdout.splitlines() == [f"{name}|{place}|0027|{of}|cat /x y", "optout", "add", "a b"]


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can access, unlike pytest's folders."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize(
    ("part", "user", "rights"),
    [("vantage", "nobody", NET_RAW), ("centre", "nobody", 0), ("store", "daemon", 0)],
)
def test_root_becomes_the_user_of_the_services(open_folder: Path, part: str, user: str, rights: int) -> None:
    """In the same process, which then gets signals itself; at a vantage point it may capture."""
    command = install(open_folder, "nobody", "firstflight", [part], IDENTITY, store="daemon")
    environment = {**os.environ, "LEFT": "of root"}
    with subprocess.Popen([command], env=environment, stdout=subprocess.PIPE, text=True) as process:
        identity, capabilities = process.communicate()[0].splitlines()
    assert identity.split() == [str(process.pid), user, pwd.getpwnam(user).pw_dir]
    assert int(capabilities.split()[1], 16) == rights


def test_the_files_of_variables_are_of_the_groups_of_their_users() -> None:
    """Without root, the test above does not show it."""
    expected = dict.fromkeys(("centre", "vantage", "dashboard"), "firstflight")
    assert groups() == expected | {"store": "firstflight-store"}


def test_other_users_are_refused(open_folder: Path) -> None:
    command = install(open_folder, "daemon", "airflow", ["centre"], PROGRAM)
    user = "nobody" if os.geteuid() == 0 else None
    done = subprocess.run([command], user=user, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "airflow: only root may run this: put sudo before it\n"
