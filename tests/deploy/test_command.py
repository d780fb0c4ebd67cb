"""The command that the playbook installs for people: as the services run it."""

from __future__ import annotations

import getpass
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

COMMAND = Path(__file__).parents[2] / "deploy/ansible/roles/common/files/firstflight"
PROGRAM = """#!/bin/sh
echo "${0##*/}|$(pwd)|$(umask)|$OF|${AIRFLOW__A:-}"
printf '%s\\n' "$@"
"""


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
    text = COMMAND.read_text().replace("= firstflight ]", f"= {getpass.getuser()} ]")
    for folder in ("/etc/firstflight", "/opt/firstflight", "/var/lib/firstflight"):
        assert folder in text
        text = text.replace(folder, f"{tmp_path}{folder}")
    for folder in ("etc/firstflight", "opt/firstflight/current/venv/bin", "var/lib/firstflight", "sbin"):
        (tmp_path / folder).mkdir(parents=True)
    for part in parts:
        (tmp_path / f"etc/firstflight/{part}.env").write_text(f'OF="{part}"\nAIRFLOW__A="cat /x y"\n')
    for path, content in ((f"opt/firstflight/current/venv/bin/{name}", PROGRAM), (f"sbin/{name}", text)):
        (tmp_path / path).write_text(content)
        (tmp_path / path).chmod(0o755)
    done = subprocess.run(
        [tmp_path / "sbin" / name, "optout", "add", "a b"], capture_output=True, text=True, check=True
    )
    place = tmp_path / "var/lib/firstflight"
    assert done.stdout.splitlines() == [f"{name}|{place}|0027|{of}|cat /x y", "optout", "add", "a b"]
