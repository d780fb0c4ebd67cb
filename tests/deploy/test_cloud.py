"""User data of deploy/cloud, by Debian's own cloud-init where that is installed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

PROGRAM = Path(__file__).parents[2] / "deploy" / "cloud" / "user_data.py"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBZ6Xo8Wm3b5Q5w0x2l6cJ9kz1u7mC4l5cY0n3vT8p1q me@example.org"


def made(folder: Path, *options: str, key: str = KEY) -> subprocess.CompletedProcess[str]:
    (folder / "key.pub").write_text(f"{key}\n")
    argv = [sys.executable, str(PROGRAM), "--key", str(folder / "key.pub"), *options]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


def checked(path: Path) -> subprocess.CompletedProcess[str]:
    argv = ["cloud-init", "schema", "--config-file", str(path)]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


def test_the_account_has_the_key_and_no_password(tmp_path: Path) -> None:
    done = made(tmp_path, "--user", "ops")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("#cloud-config\n")
    given = yaml.safe_load(done.stdout)
    (user,) = given["users"]
    assert (user["name"], user["lock_passwd"], user["ssh_authorized_keys"]) == ("ops", True, [KEY])
    assert (given["ssh_pwauth"], given["disable_root"]) == (False, True)


@pytest.mark.skipif(shutil.which("cloud-init") is None, reason="Debian's cloud-init is not installed")
def test_cloud_init_finds_it_valid(tmp_path: Path) -> None:
    path = tmp_path / "user-data"
    text = made(tmp_path).stdout
    path.write_text(text)
    done = checked(path)
    assert done.returncode == 0 and "Valid" in done.stdout + done.stderr, done.stderr
    # So that the line above can fail.
    for right, wrong in (
        ("lock_passwd: true", "lock_passwd: 7"),
        ("package_update: true", "package_update: later"),
    ):
        assert right in text
        path.write_text(text.replace(right, wrong))
        done = checked(path)
        assert done.returncode != 0 and "schema errors" in done.stdout + done.stderr


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
