"""User data of deploy/cloud; tests/cloud lets cloud-init check it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

PROGRAM = Path(__file__).parents[3] / "deploy" / "cloud" / "user_data.py"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBZ6Xo8Wm3b5Q5w0x2l6cJ9kz1u7mC4l5cY0n3vT8p1q me@example.org"


def made(folder: Path, *options: str, key: str = KEY) -> subprocess.CompletedProcess[str]:
    (folder / "key.pub").write_text(f"{key}\n")
    argv = [sys.executable, str(PROGRAM), "--key", str(folder / "key.pub"), *options]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


def test_the_account_has_the_key_and_no_password(tmp_path: Path) -> None:
    done = made(tmp_path, "--user", "ops")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("#cloud-config\n")
    given = yaml.safe_load(done.stdout)
    (user,) = given["users"]
    assert (user["name"], user["lock_passwd"], user["ssh_authorized_keys"]) == ("ops", True, [KEY])
    assert (given["ssh_pwauth"], given["disable_root"]) == (False, True)


@pytest.mark.parametrize(
    ("options", "key", "shown"),
    [
        (["--user", "root"], KEY, "is no name"),
        (["--user", "a b"], KEY, "is no name"),
        ([], "-----BEGIN OPENSSH PRIVATE KEY-----", "no public key"),
        ([], f'command="x" {KEY}', "no public key"),
        ([], f"{KEY}\n{KEY}", "no public key"),
        (["--key", "/nonexistent"], KEY, "No such file"),
    ],
)
def test_wrong_use_is_one_sentence(tmp_path: Path, options: list[str], key: str, shown: str) -> None:
    done = made(tmp_path, *options, key=key)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert shown in done.stderr and "PRIVATE KEY-----\n" not in done.stdout
